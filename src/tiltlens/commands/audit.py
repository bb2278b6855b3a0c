"""`tiltlens audit`."""

from __future__ import annotations

from typing import Any

import click

from tiltlens.commands.auditing import audited
from tiltlens.commands.options import DATA, JSON, REPORT, options_of_audits
from tiltlens.commands.targets import check_targets, judge, progress_shown, screen, write_report_of


@click.command("audit")
@DATA
@options_of_audits()
@JSON
@REPORT
@click.option(
    "--fail-if",
    "conditions",
    multiple=True,
    metavar="CONDITION",
    help='Exit with 1 where it holds, in quotes: "adverse_impact_ratio<0.8", "proxies>0", or "too_small>0" for groups '
    "too small to compare. Repeat for more.",
)
def command(
    data: tuple[str, ...], json_target: str | None, report: str | None, conditions: tuple[str, ...], **options: Any
) -> None:
    """Audit a model's scores, decisions or amounts.

    DATA: files (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx; CSV may be zipped: .csv.gz), a quoted pattern of them, a
    folder, or the URL of a database with --query. Rows need not fit in memory: rates and the gap come from all of them,
    models are fitted on a sample.

    Exit codes: 0 done, 1 a --fail-if condition holds, 2 a mistake in the arguments or the data.
    """
    from tiltlens.gates import gate
    from tiltlens.views.json_file import write_json
    from tiltlens.views.terminal import print_audit, printable

    gates = [gate(condition) for condition in conditions]
    check_targets(json_target, report)
    with progress_shown(json_target) as progress:
        result = audited(data, progress=progress, **options)
    fired = [sentence for one in gates for sentence in one.fired(result)]  # a mistake in a gate leaves nothing written
    if options["outcome"] is not None:
        beside = "what came of people, for error rates of the scores"
        alone = "a logistic model was trained on it and audited; name yours with --scores"
        click.echo(f"--outcome {printable(options['outcome'])}: {beside if options['scores'] else alone}.", err=True)
    summary = result.to_dict()
    if json_target is not None:
        write_json(summary, json_target)
    if report is not None:
        write_report_of(summary, report)
    if json_target != "-":
        print_audit(summary, screen())
    judge(gates, fired, result)
