"""`tiltlens rule`."""

from __future__ import annotations

from tiltlens.commands.options import AUDIT, DATA, READING, WRITING, Spec, Value, command, only, with_options
from tiltlens.commands.targets import check_targets, deliver

OWN = {
    "rule": Spec("Inference", "RULE", "Rule: four-fifths or nyc-local-law-144.", required=True),
    "group": Spec(
        "Groups", "COLUMN", "Group column, e.g. sex. Repeat for intersections.", multiple=True, required=True
    ),
    "selected": Spec("Outcome", "COLUMN", "Decisions: 0 and 1, or two words."),
    "scores": Spec("Outcome", "COLUMN", "Scores on any scale; the rate is the share above their median."),
    "strata": Spec(
        "Groups", "COLUMN", "Column of strata, e.g. job; adds tests within strata. Repeat for more.", multiple=True
    ),
    "ratio_threshold": Spec(
        "Inference", "RATIO", "Impact ratio below which a group is flagged (default the rule's).", type=float
    ),
    "smallest_share": Spec(
        "Inference", "SHARE", "Share of the data below which a group has no ratio (default the rule's).", type=float
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
    from tiltlens.sources.text_columns import read

    check_targets({"json": json}, data)
    lists = {"group": list(options["group"]), "strata": list(options["strata"]) or None}
    source = read(list(data), **{name: options.pop(name) for name in READING})
    tables = rule_tables(source, rule, **options | lists)
    deliver({"json": json}, tables, print_rule_tables)
