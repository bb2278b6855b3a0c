"""The tables of a rule: any table of people, one call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from tiltlens.engines.columns import check_index
from tiltlens.engines.messages import listed, shown
from tiltlens.engines.sources import collected, names_of
from tiltlens.engines.spark import is_spark
from tiltlens.errors import DataError
from tiltlens.models.groups import JOINT, UNKNOWN, group_columns, level_codes
from tiltlens.paper.checks import check_probability
from tiltlens.results.provenance import Provenance, check_provenance, fingerprint_of, provenance_of
from tiltlens.rules.notes import notes_of
from tiltlens.rules.outcomes import Outcomes, outcome_columns, outcomes_of
from tiltlens.rules.ratios import MEASURES, Count, Limits, measured
from tiltlens.rules.rule import Rule, rule_named, smallest_share_of, threshold_of
from tiltlens.views.json_file import write_json
from tiltlens.views.notebook import rule_tables_html

OF_AUDITS = ("features", "question")  # parts of a provenance that rule tables do not have
SCHEMA = "tiltlens/rule_tables/1"  # of to_dict and to_json; a change that breaks a reader raises the number
KINDS = {int: pl.Int64, float: pl.Float64, bool: pl.Boolean, str: pl.String}


@dataclass(frozen=True, slots=True, eq=False)
class RuleTables:
    """The tables that a rule describes.

    Attributes
    ----------
    rule
        What is compared, where that is written, and what the tables do not decide.
    tables
        One frame for each attribute, by name, and one for the intersections ("sex & race") where there are several.
    unknown
        For each table, how many people with a known outcome have no known group and are in none of its rows.
    rows
        How many were read, how many used, and how many left out because their outcome is missing.
    rate, outcome, favourable
        "selection" or "scoring", the column it is of, and which end of it a person wants.
    median
        Of all known scores; None for selections.
    limits
        The threshold, the smallest share of the data and the confidence in use.
    notes
        What a reader has to know, in sentences.
    provenance
        When, by which versions, from which data, and what the user said of them.
    """

    rule: Rule
    tables: dict[str, pl.DataFrame]
    unknown: dict[str, int]
    rows: dict[str, int]
    rate: str
    outcome: str
    favourable: str
    median: float | None
    limits: Limits
    notes: tuple[str, ...]
    provenance: Provenance

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self.tables:
            raise DataError(f"`name` must be one of the tables, got {shown(name)}.", f"they are {list(self.tables)}.")
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the tables, and the rule they are made by."""
        return {
            "schema": SCHEMA,
            "rule": asdict(self.rule) | {"rates": list(self.rule.rates), "attributes": list(self.rule.attributes)},
            **asdict(self.limits),
            "rate": self.rate,
            "outcome": self.outcome,
            "favourable": self.favourable,
            "median": self.median,
            "rows": self.rows,
            "notes": list(self.notes),
            "tables": [_plain(name, frame, self.unknown[name]) for name, frame in self.tables.items()],
            "provenance": {name: part for name, part in asdict(self.provenance).items() if name not in OF_AUDITS},
        }

    def to_json(self, path: str | Path) -> None:
        """Write every number of the tables to a JSON file, whole or not at all."""
        write_json(self.to_dict(), path)

    def _repr_html_(self) -> str:
        return rule_tables_html(self.to_dict())

    def __repr__(self) -> str:
        return f"RuleTables({self.rule.id}: {', '.join(map(repr, self.tables))})"


def rule_tables(
    data: Any,
    rule: str,
    group: str | Sequence[str],
    selected: Any = None,
    scores: Any = None,
    favourable: str = "high",
    threshold: float | None = None,
    smallest_share: float | None = None,
    confidence: float = 0.95,
    provenance: Mapping[str, str] | None = None,
    na_values: str | Sequence[str] | None = None,
) -> RuleTables:
    """Return the tables that a published rule describes: rates by group, and their ratios to the highest one.

    Parameters
    ----------
    data
        A pandas or Polars frame (eager or lazy), a pyarrow table, a DuckDB relation, a dict of arrays, or files. Only
        the columns of the groups and of the outcome are read.
    rule
        "four-fifths" or "nyc-local-law-144".
    group
        A column, or several: then each has its table, and their intersections have one.
    selected, scores
        Exactly one, a column or an array: decisions, 0 or 1 or two words; or scores on any scale, of which the rate is
        the share strictly above their median.
    favourable
        "high" where people want a 1 or a high score, "low" where they want a 0 or a low score; of words the one that
        people want, such as "hired".
    threshold, smallest_share
        Instead of the rule's: impact ratios below it are pointed out; groups with less of the data have no ratio.
    confidence
        Of the intervals.
    provenance
        What a reader should know of the data and the model, e.g. {"data window": "2024"}.
    na_values
        As of `tiltlens.audit`.
    """
    chosen = rule_named(rule)
    limits = Limits(
        threshold_of(chosen, threshold),
        smallest_share_of(chosen, smallest_share),
        check_probability("confidence", confidence),
    )
    stated = check_provenance(provenance)
    _check_not_spark(data)
    names = names_of(data)
    attributes = _attributes(chosen, group, names)
    outcome = outcome_columns(chosen, selected, scores, names)
    _check_apart(attributes, outcome)
    table = collected(data, [*attributes, *outcome], na_values)
    for argument, value in (("selected", selected), ("scores", scores)):
        check_index(argument, value, data)
    outcomes = outcomes_of(table, selected, scores, favourable)
    coded = _coded(table.filter(outcomes.known), attributes, outcomes)
    wanted = [[name] for name in attributes] + ([attributes] if len(attributes) > 1 else [])
    frames = {JOINT.join(columns): _frame(coded, columns, limits) for columns in wanted}
    used = int(outcomes.known.sum())
    return RuleTables(
        rule=chosen,
        tables=frames,
        unknown={name: used - int(frame["n"].sum()) for name, frame in frames.items()},
        rows={"read": table.height, "used": used, "missing_outcome": table.height - used},
        rate=outcomes.rate,
        outcome=outcomes.name,
        favourable=favourable,
        median=outcomes.median,
        limits=limits,
        notes=tuple(notes_of(chosen, frames, outcomes, favourable, limits)),
        provenance=provenance_of(table.height, fingerprint_of(table), [], {}, stated),
    )


def _check_not_spark(data: Any) -> None:
    if is_spark(data):
        raise DataError(
            f"`data` of rule tables must be read into memory, got {type(data).__module__}.{type(data).__name__}.",
            "pass files or a frame as they are; of Spark, collect what is needed: frame.select('sex', …).toPandas().",
        )


def _attributes(rule: Rule, group: Any, names: list[str]) -> list[str]:
    attributes = group_columns(group, names)
    if not attributes:
        raise DataError(
            f"`group` must name the columns that the rule {shown(rule.id)} divides people by, got {shown(group)}.",
            f"for example 'sex', or ['sex', 'race']; the columns are {listed(names)}.",
        )
    taken = [name for name in attributes if name in MEASURES]
    if taken:
        raise DataError(
            f"`group` must not be named like a column of the tables, got {shown(taken[0])}.", "rename it in the data."
        )
    return attributes


def _check_apart(attributes: Sequence[str], outcome: Sequence[str]) -> None:
    for name in outcome:
        if name in attributes:
            raise DataError(
                f"`group` and the outcome must be different columns, got {shown(name)} for both.",
                "the outcome is what was decided about people, the group is who they are.",
            )


def _coded(table: pl.DataFrame, attributes: Sequence[str], outcomes: Outcomes) -> pl.DataFrame:
    """Return each attribute as an Enum in the order of its levels, and whether the row counts."""
    columns = []
    for name in attributes:
        codes, labels = level_codes(table[name])
        found = set(codes.tolist()) - {UNKNOWN}
        if len(found) < 2:
            only = listed([labels[code] for code in found]) + " only" if found else "missing values only"
            raise DataError(
                f"`group` ({shown(name)}) must have at least two values, got {only}.",
                "a rate is compared with that of another group: check the filter before it.",
            )
        places = pl.Series(codes).replace(UNKNOWN, None)
        columns.append(pl.Series(name, labels, dtype=pl.Enum(labels)).gather(places))
    counted = outcomes.counts[outcomes.known]
    return pl.DataFrame([*columns, pl.Series("rate", counted)])  # no attribute has this name


def _frame(coded: pl.DataFrame, columns: Sequence[str], limits: Limits) -> pl.DataFrame:
    """Return the tidy table of the groups that these columns make."""
    sums = coded.drop_nulls(columns).group_by(columns).agg(pl.len().alias("n"), pl.col("rate").sum()).sort(columns)
    groups = [Count(size, counted) for size, counted in sums.select("n", "rate").rows()]
    schema = {name: KINDS[kind] for name, kind in MEASURES.items()}
    numbers = pl.DataFrame(measured(groups, limits), schema=schema)
    return pl.concat([sums.select(pl.col(columns).cast(pl.String)), numbers], how="horizontal")


def _plain(name: str, frame: pl.DataFrame, unknown: int) -> dict[str, Any]:
    columns = [column for column in frame.columns if column not in MEASURES]
    rows = [
        {"group": {column: row[column] for column in columns}} | {measure: row[measure] for measure in MEASURES}
        for row in frame.to_dicts()
    ]
    return {"name": name, "columns": columns, "unknown": unknown, "rows": rows}
