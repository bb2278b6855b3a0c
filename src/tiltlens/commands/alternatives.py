"""`tiltlens alternatives`."""

from __future__ import annotations

from typing import Any

import click

from tiltlens.commands.auditing import audited
from tiltlens.commands.options import DATA, JSON, OF_ACTIONS, OUTCOME, REPORT, options_of_audits
from tiltlens.commands.targets import check_targets, progress_shown, screen, write_outputs
from tiltlens.errors import TiltlensError


@click.command("alternatives")
@DATA
@options_of_audits(but=OF_ACTIONS - {"model", "trusted"})
@OUTCOME
@click.option("--tolerance", type=float, default=0.005, show_default=True, help="Loss of accuracy that counts as none.")
@click.option(
    "--threshold",
    type=float,
    default=0.5,
    show_default=True,
    help="Score from which the audited decision is 1. It also says what errors cost: at 0.2, a missed outcome four "
    "times a false alarm.",
)
@JSON
@REPORT
def command(
    data: tuple[str, ...],
    json_target: str | None,
    report: str | None,
    tolerance: float,
    threshold: float,
    **options: Any,
) -> None:
    """Look for a rule that is no less accurate and leans less.

    DATA, --group, --scores, --outcome and other options as of `tiltlens audit`; the outcome is needed. Rules of the
    same features are fitted on some rows and compared on others with the audited decisions. With --model it also tells
    what would change were a feature not used, or less finely.

    Exit codes: 0 done, 2 a mistake in the arguments or the data.
    """
    from tiltlens.render.document_page import write_alternatives
    from tiltlens.render.terminal import print_alternatives
    from tiltlens.repair.alternatives import alternatives_summary

    outputs = {"json": json_target, "report": report}
    check_targets(outputs, data, options["model"])
    has_model = options["scores"] or options["model"]
    if not has_model or options["outcome"] is None:
        missing = "`--outcome`" if has_model else "`--scores` or `--model`"
        raise TiltlensError(
            f"`tiltlens alternatives` must have {missing}, got none.",
            "decisions of the audited scores are compared with what came of people.",
        )
    with progress_shown(json_target) as progress:
        result = audited(data, progress=progress, **options)
    found = {name: c.alternatives(tolerance, threshold) for name, c in result.comparisons.items()}
    summary = alternatives_summary(found, result.group)
    write_outputs(outputs, summary, report=write_alternatives)
    if json_target != "-":
        print_alternatives(summary, screen())
