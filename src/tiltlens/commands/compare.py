"""`tiltlens compare`."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tiltlens.commands.auditing import audited
from tiltlens.commands.options import DATA, JSON, JUNIT, OUTCOME, fail_if, options_of_audits, refuse_options
from tiltlens.commands.targets import (
    GATE_FIRED,
    check_gated,
    check_targets,
    screen,
    told_gates,
    write_junit,
    write_outputs,
)
from tiltlens.errors import TiltlensError

if TYPE_CHECKING:
    from tiltlens.results.change import Change


@click.command("compare")
@options_of_audits(but={"scores", "model", "trusted", "outcome", "periods", "monitor"})
@DATA
@click.option("--scores", multiple=True, metavar="COLUMN", help="Of DATA: the old model's scores, then the new one's.")
@OUTCOME
@JSON
@click.option("--report", "report", metavar="FILE.html", help="Also write the change as one page for people.")
@JUNIT
@fail_if('"gap_change.low>0.01"')
def command(
    data: tuple[str, ...],
    json_target: str | None,
    report: str | None,
    junit: str | None,
    conditions: tuple[str, ...],
    **options: Any,
) -> None:
    """Compare two models on the same rows, or two saved audits.

    DATA with --scores OLD --scores NEW, --group and other options as of `tiltlens audit`: both models are audited on
    the same rows, and intervals are of each row's difference. Or two files that `tiltlens audit --json` wrote, the old
    one first, of different rows, such as two periods: intervals are of independent samples.

    Exit codes: 0 done, 1 a --fail-if condition holds, 2 a mistake in the arguments or the data.
    """
    from tiltlens.gates import OF_CHANGES, gate
    from tiltlens.render.document_page import write_change
    from tiltlens.render.terminal import print_change

    gates = [gate(condition, OF_CHANGES) for condition in conditions]
    outputs = {"json": json_target, "report": report, "junit": junit}
    check_targets(outputs, data)
    check_gated(junit, gates)
    result = _changed(data, **options)
    judged = [said for one in gates for said in one.judged(result)]
    summary = result.to_dict()
    write_outputs(outputs, summary, report=write_change, junit=partial(write_junit, judged))
    if json_target != "-":
        print_change(summary, screen())
    if told_gates(gates, judged, result):
        sys.exit(GATE_FIRED)


def _changed(data: tuple[str, ...], scores: tuple[str, ...], **options: Any) -> Change:
    """Return the change between two models on the same rows, or between two saved audits."""
    from tiltlens.results.audit_comparison import compare as compare_audits
    from tiltlens.results.saved_audits import saved_change

    if scores:
        if len(scores) != 2 or scores[0] == scores[1]:
            raise TiltlensError(
                f"`tiltlens compare` must have two different --scores, got {' and '.join(map(repr, scores))}.",
                "for example --group sex --scores old_score --scores new_score.",
            )
        others = options.pop("exclude")
        old, new = (
            audited(data, scores=(one,), periods=None, exclude=(*others, other), progress=None, **options)
            for one, other in (scores, scores[::-1])
        )
        return compare_audits(old, new)
    if len(data) != 2:
        raise TiltlensError(
            f"`tiltlens compare` must have two saved audits, or data with two --scores, got {len(data)} files.",
            "for example old.json new.json.",
        )
    hint = "these are compared as they are: leave it out, or audit again with it."
    refuse_options(options, "with data and --scores", "beside two saved audits", hint)
    return saved_change(*data)
