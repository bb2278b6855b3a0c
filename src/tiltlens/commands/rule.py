"""`tiltlens rule`."""

from __future__ import annotations

from tiltlens.commands.options import (
    AUDIT,
    DATA,
    GROUPS,
    INFERENCE,
    MANY,
    NUMBER,
    OUTCOME,
    READING,
    WRITING,
    Spec,
    Value,
    command,
    only,
    with_options,
)
from tiltlens.commands.targets import check_targets, screen, write_outputs, write_summary

REQUIRED = {"required": True}
OWN = {
    "rule": Spec(INFERENCE, "RULE", "Rule: four-fifths or nyc-local-law-144.", REQUIRED),
    "group": Spec(GROUPS, "COLUMN", "Group column, e.g. sex. Repeat for intersections.", MANY | REQUIRED),
    "selected": Spec(OUTCOME, "COLUMN", "Decisions: 0 and 1, or two words."),
    "scores": Spec(OUTCOME, "COLUMN", "Scores on any scale; the rate is the share above their median."),
    "strata": Spec(GROUPS, "COLUMN", "Column of strata, e.g. job; adds tests within strata. Repeat for more.", MANY),
    "ratio_threshold": Spec(
        INFERENCE, "RATIO", "Impact ratio below which a group is flagged (default the rule's).", NUMBER
    ),
    "smallest_share": Spec(
        INFERENCE, "SHARE", "Share of the data below which a group has no ratio (default the rule's).", NUMBER
    ),
}


@command(
    "rule",
    "hiring.csv --rule four-fifths --group sex --selected hired",
    "hiring.csv --rule nyc-local-law-144 --group sex --group race --scores score",
)
@DATA
@with_options(OWN | READING | only(AUDIT, "favourable", "confidence", "provenance") | only(WRITING, "json"))
def rule_command(data: tuple[str, ...], rule: str, json: str | None, **options: Value) -> None:
    """Make the tables that a published rule describes.

    DATA: files (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx; CSV may be compressed: .csv.gz), a quoted pattern, a
    folder, or the URL of a database with --query. One of --selected and --scores is needed. The exit code does not
    depend on the numbers in the tables.
    """
    from tiltlens.render.terminal import print_rule_tables
    from tiltlens.rules.tables import rule_tables
    from tiltlens.sources.read_options import read

    check_targets({"json": json}, data)
    lists = {"group": list(options["group"]), "strata": list(options["strata"]) or None}
    source = read(list(data), **{name: options.pop(name) for name in READING})
    tables = rule_tables(source, rule, **options | lists)
    write_outputs({"json": json}, tables, json=write_summary)
    if json != "-":
        print_rule_tables(tables, screen())
