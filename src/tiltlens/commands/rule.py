"""`tiltlens rule`."""

from __future__ import annotations

from typing import Any

import click

from tiltlens.commands.options import CONFIDENCE, DATA, ENCODING, JSON, NA, QUERY, SHEET, option_of_pairs
from tiltlens.commands.targets import check_targets, screen, write_outputs


@click.command("rule")
@DATA
@click.option("--rule", "name", required=True, metavar="RULE", help="four-fifths or nyc-local-law-144.")
@click.option(
    "--group", required=True, multiple=True, metavar="COLUMN", help="Who people are, e.g. sex; repeat to cross too."
)
@click.option("--selected", metavar="COLUMN", help="Decisions: 0 and 1, or two words.")
@click.option("--scores", metavar="COLUMN", help="Scores on any scale: the rate is the share above their median.")
@click.option(
    *("--favourable", "--favorable", "favourable"),
    default="high",
    show_default=True,
    metavar="OUTCOME",
    help="What a person wants: high or low, or of two words the one, e.g. hired.",
)
@click.option("--strata", multiple=True, metavar="COLUMN", help="Compare within its values too, e.g. job. Repeat.")
@click.option(
    "--ratio-threshold", type=float, help="Impact ratio below which a group is flagged (default: the rule's)."
)
@click.option("--smallest-share", type=float, help="Groups with less of the data have no ratio. Default: the rule's.")
@NA
@ENCODING
@SHEET
@QUERY
@CONFIDENCE
@JSON
@option_of_pairs(
    "--provenance",
    metavar="NAME=TEXT",
    example='"data window=2024"',
    text='For readers, e.g. "data window=2024". Repeat.',
)
def command(data: tuple[str, ...], name: str, json_target: str | None, **options: Any) -> None:
    """Make the tables that a published rule describes.

    DATA: files (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx; CSV may be zipped: .csv.gz), a quoted pattern of them, a
    folder, or the URL of a database with --query. One of --selected and --scores is needed.

    Exit codes: 0 done, 2 a mistake in the arguments or the data. The tables decide nothing, so there is no other.
    """
    from tiltlens.render.terminal import print_rule_tables
    from tiltlens.rules.tables import rule_tables

    check_targets({"json": json_target}, data)
    lists = {"group": list(options["group"]), "strata": list(options["strata"]) or None}
    summary = rule_tables(list(data), name, **options | lists).to_dict()
    write_outputs({"json": json_target}, summary)
    if json_target != "-":
        print_rule_tables(summary, screen())
