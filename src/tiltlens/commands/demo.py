"""`tiltlens demo`."""

from __future__ import annotations

from tiltlens.commands.options import WRITING, command, only, with_options
from tiltlens.commands.targets import check_targets, deliver


@command("demo", "--report demo.html", "--json -")
@with_options(only(WRITING, "json", "report"))
def demo_command(json: str | None, report: str | None) -> None:
    """Run the paper's experiment on bundled COMPAS data."""
    from tiltlens.demo import paper_experiment, print_demo
    from tiltlens.render.page import write_report

    check_targets({"json": json, "report": report})
    experiment = paper_experiment()
    deliver(
        {"json": json, "report": report},
        experiment,
        lambda result, console: print_demo(result.plug_in, result.cross_fitted, result.least_change["cost"], console),
        report=lambda result, target: write_report(result.cross_fitted, target),
    )
