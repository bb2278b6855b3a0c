"""`tiltlens demo`."""

from __future__ import annotations

import click

from tiltlens.commands.options import REPORT
from tiltlens.commands.targets import check_targets, screen, write_report_of


@click.command("demo")
@click.option("--json", "json_target", metavar="FILE", help="Also write the numbers as JSON; '-' is standard output.")
@REPORT
def command(json_target: str | None, report: str | None) -> None:
    """Run the paper's experiment on bundled COMPAS data.

    With --json - the JSON is all that is written to standard output.
    """
    from tiltlens.demo import paper_experiment
    from tiltlens.views.demo_text import print_demo
    from tiltlens.views.json_file import write_json

    check_targets({"json": json_target, "report": report})
    summary = paper_experiment()
    if json_target is not None:
        write_json(summary, json_target)
    if report is not None:
        write_report_of(summary["cross_fitted"], report)
    if json_target != "-":
        print_demo(summary, screen())
