"""`tiltlens run`."""

from __future__ import annotations

import sys

import click

from tiltlens.commands.audit import check_apart, run_audit
from tiltlens.commands.options import GATED, Spec, command, with_options
from tiltlens.commands.targets import GATE_FAILED


@command("run", "audit.yaml", "--check audits/*.yaml", exit_codes=GATED)
@click.argument("files", nargs=-1, required=True)
@with_options({"check": Spec("Other", None, "Check the files and stop; no data are read.", is_flag=True)})
def run_command(files: tuple[str, ...], check: bool) -> None:
    """Run the audits that audit files describe.

    FILES: audit.yaml or audit.toml. Keys are the options of `tiltlens audit`, with _ for -: data, group, scores and so
    on, and gates, provenance, outputs. File names are relative to the audit file. The same file and data give the same
    output byte for byte, so it contains no date; SOURCE_DATE_EPOCH sets one.
    """
    from tiltlens.commands.audit_file import read_audit_file
    from tiltlens.render.page import check_report

    requests = [read_audit_file(name) for name in dict.fromkeys(files)]  # all are checked before the first starts
    check_apart(*requests)
    if check:
        click.echo(f"Checked {len(requests)} files: keys, values, gates and outputs are valid.", err=True)
        return
    for request in requests:
        check_report(request.outputs["report"])
    have_failed = [run_audit(request) for request in requests]
    if any(have_failed):
        sys.exit(GATE_FAILED)
