"""`tiltlens run`."""

from __future__ import annotations

import sys

import click

from tiltlens.commands.targets import GATE_FIRED


@click.command("run")
@click.argument("files", nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Check the files and stop: no data are read.")
def command(files: tuple[str, ...], check: bool) -> None:
    """Run audits that are written down in files.

    FILES: audit.yaml or audit.toml. Keys are the options of `tiltlens audit`, with _ for -: data, group, scores and so
    on, and gates, provenance, outputs. Names of files are relative to the file. The same file and data give the same
    bytes, so that no date is in them; SOURCE_DATE_EPOCH sets one.

    Exit codes: 0 done, 1 a gate fired, 2 a mistake in a file or the data.
    """
    from tiltlens.commands.audit_file import read_audit_file
    from tiltlens.commands.auditing import answered, check_apart
    from tiltlens.render.page import check_report

    asked = {name: read_audit_file(name) for name in files}  # all are checked before the first starts
    check_apart(*asked.values())
    if check:
        click.echo(f"{len(asked)} checked: every key and value, gate and place to write.", err=True)
        return
    for one in asked.values():
        check_report(one.outputs["report"])
    fired = [answered(one) for one in asked.values()]
    if any(fired):
        sys.exit(GATE_FIRED)
