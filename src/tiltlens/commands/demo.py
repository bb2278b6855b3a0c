"""`tiltlens demo`."""

from __future__ import annotations

from tiltlens.commands.options import WRITING, command, only, with_options
from tiltlens.commands.targets import check_targets, screen, write_outputs, write_summary


@command("demo", "--report demo.html", "--json -")
@with_options(only(WRITING, "json", "report"))
def demo_command(json: str | None, report: str | None) -> None:
    """Run the paper's experiment on bundled COMPAS data."""
    from tiltlens.demo import paper_experiment
    from tiltlens.render.demo_text import print_demo
    from tiltlens.render.page import write_report

    check_targets({"json": json, "report": report})
    experiment = paper_experiment()
    write_outputs({"json": json}, experiment, json=write_summary)
    write_outputs({"report": report}, experiment.cross_fitted, report=write_report)
    if json != "-":
        print_demo(experiment.plug_in, experiment.cross_fitted, experiment.least_change["cost"], screen())
