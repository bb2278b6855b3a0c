"""`tiltlens audit`."""

from __future__ import annotations

import sys
from typing import Any

import click

from tiltlens.commands.auditing import Asked, answered, check_apart
from tiltlens.commands.options import DATA, JSON, JUNIT, REPORT, TABLES, fail_if, options_of_audits
from tiltlens.commands.targets import GATE_FIRED


@click.command("audit")
@DATA
@options_of_audits()
@JSON
@REPORT
@TABLES
@JUNIT
@fail_if('"adverse_impact_ratio<0.8", "potential_proxies>0", or "too_small>0" for groups too small to compare')
def command(**options: Any) -> None:
    """Audit a model's scores, decisions or amounts.

    DATA: files (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx; CSV may be zipped: .csv.gz), a quoted pattern of them, a
    folder, or the URL of a database with --query. Rows need not fit in memory: rates and the gap come from all of them,
    models are fitted on a sample.

    Exit codes: 0 done, 1 a --fail-if condition holds, 2 a mistake in the arguments or the data.
    """
    asked = Asked.of(options)
    check_apart(asked)
    if answered(asked):
        sys.exit(GATE_FIRED)
