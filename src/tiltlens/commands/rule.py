"""`tiltlens rule`."""

from __future__ import annotations

from typing import Any

import click

from tiltlens.commands.options import CONFIDENCE, DATA, JSON, OF_AUDITS, READING, with_options
from tiltlens.commands.targets import check_targets, screen, write_outputs


@click.command("rule")
@DATA
@click.option("--rule", "name", required=True, metavar="RULE", help="Rule: four-fifths or nyc-local-law-144.")
@click.option(
    "--group",
    required=True,
    multiple=True,
    metavar="COLUMN",
    help="Column of groups, e.g. sex; repeat for intersections.",
)
@click.option("--selected", metavar="COLUMN", help="Decisions: 0 and 1, or two words.")
@click.option("--scores", metavar="COLUMN", help="Scores on any scale; the rate is the share above their median.")
@click.option(
    *("--favourable", "--favorable", "favourable"),
    default="high",
    show_default=True,
    metavar="OUTCOME",
    help="Outcome that people want: high, low, or one of two words, e.g. hired.",
)
@click.option(
    "--strata",
    multiple=True,
    metavar="COLUMN",
    help="Column within whose values groups are compared too, e.g. job. Repeat for more.",
)
@click.option(
    "--ratio-threshold", type=float, help="Impact ratio below which a group is flagged (default: the rule's)."
)
@click.option(
    "--smallest-share", type=float, help="Share of the data below which a group has no ratio (default: the rule's)."
)
@with_options(READING.values())
@CONFIDENCE
@JSON
@OF_AUDITS["provenance"]
def command(data: tuple[str, ...], name: str, json_target: str | None, **options: Any) -> None:
    """Make the tables that a published rule describes.

    DATA: files (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx; CSV may be zipped: .csv.gz), a quoted pattern of them, a
    folder, or the URL of a database with --query. One of --selected and --scores is needed.

    Exit codes: 0 done, 2 a mistake in the arguments or the data. The tables decide nothing, so there is no other.
    """
    from tiltlens.render.terminal import print_rule_tables
    from tiltlens.rules.tables import rule_tables
    from tiltlens.sources.read_options import read

    check_targets({"json": json_target}, data)
    lists = {"group": list(options["group"]), "strata": list(options["strata"]) or None}
    source = read(list(data), **{name: options.pop(name) for name in READING})
    summary = rule_tables(source, name, **options | lists).to_dict()
    write_outputs({"json": json_target}, summary)
    if json_target != "-":
        print_rule_tables(summary, screen())
