"""`tiltlens demo`."""

from __future__ import annotations

import click

from tiltlens.commands.options import REPORT
from tiltlens.commands.targets import check_targets, screen, write_outputs


@click.command("demo")
@click.option("--json", "json_target", metavar="FILE", help="Also write the numbers as JSON; '-' is standard output.")
@REPORT
def command(json_target: str | None, report: str | None) -> None:
    """Run the paper's experiment on bundled COMPAS data.

    With --json - the JSON is all that is written to standard output.
    """
    from tiltlens.demo import paper_experiment
    from tiltlens.render.demo_text import print_demo
    from tiltlens.render.page import write_report

    check_targets({"json": json_target, "report": report})
    summary = paper_experiment()
    write_outputs({"json": json_target}, summary)
    write_outputs({"report": report}, summary["cross_fitted"], report=write_report)
    if json_target != "-":
        print_demo(summary, screen())
