"""The tables of a rule, from any table of people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from tiltlens._estimators.estimate import quantile
from tiltlens._estimators.verdicts import Count
from tiltlens._results.codec import to_plain, write_json
from tiltlens._results.outputs import Provenance, check_provenance, provenance_of
from tiltlens._rows.groups import JOINT, NO_GROUP, group_columns, level_codes
from tiltlens._rows.roles import PEOPLE
from tiltlens._rows.scores import either_spelling
from tiltlens._rules import measures
from tiltlens._rules.measures import MEASURES, TESTS, Kinds, Limits
from tiltlens._rules.rule import (
    Outcomes,
    Rule,
    outcome_spec,
    ratio_threshold_of,
    rule_named,
    smallest_share_of,
    tally_people,
)
from tiltlens._sources.engines import batches_of, names_of, reading_notes
from tiltlens._sources.tables import Record
from tiltlens.errors import DataError, check_columns, names_in, quoted, quoted_list
from tiltlens.paper.checks import check_probability

OF_AUDITS = ("features", "question")  # parts of a provenance that rule tables do not have
SCHEMA = "tiltlens/rule_tables/1"  # version of to_dict and to_json, increased by changes that break readers
STRATUM = "stratum"  # no attribute has this name
Key: TypeAlias = tuple[Any, ...]  # the values that identify a group; with strata, also the stratum's code


@dataclass(frozen=True, slots=True, eq=False)
class RuleTables:
    """The tables that a rule describes.

    Attributes
    ----------
    rule
        The rule: what it compares, its citation, and what its tables do not decide.
    tables
        One frame per attribute, by name, and one for the intersections ("sex & race") if there are several attributes.
    tests
        For each table, a frame of tests of each compared group against the highest rate.
    unknown
        For each table, the number of people with an outcome whose group is missing.
    rows
        The number of rows read, used, and left out because their outcome is missing.
    rate, outcome, favourable
        "selection" or "scoring", the column of the outcome, and the value that people want.
    median
        The median of all scores; None for selections.
    strata
        The columns of strata, within which the groups are also compared.
    limits
        The threshold, the smallest share of the data and the confidence in use.
    notes
        Notes for readers.
    provenance
        The date, versions, data, and facts that the user stated.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women", "men"] * 50, "hired": [0, 1, 1, 1, 0, 0, 1, 1, 0, 1] * 10}
    >>> tables = tl.rule_tables(people, "four-fifths", "sex", selected="hired")
    >>> tables
    RuleTables(four-fifths: 'sex')
    >>> tables["sex"].select("sex", "n", "rate").rows()
    [('men', 50, 0.8), ('women', 50, 0.4)]
    """

    rule: Rule
    tables: dict[str, pl.DataFrame]
    tests: dict[str, pl.DataFrame]
    unknown: dict[str, int]
    rows: dict[str, int]
    rate: str
    outcome: str
    favourable: str
    median: float | None
    strata: tuple[str, ...]
    limits: Limits
    notes: tuple[str, ...]
    provenance: Provenance

    def __getitem__(self, name: str) -> pl.DataFrame:
        if name not in self.tables:
            raise DataError(f"`name` must be one of the tables, got {quoted(name)}.", f"they are {list(self.tables)}.")
        return self.tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)

    def __len__(self) -> int:
        return len(self.tables)

    def to_dict(self) -> dict[str, Any]:
        """Return every number of the tables, and their rule."""
        return {
            "schema": SCHEMA,
            "rule": to_plain(self.rule),
            **to_plain(self.limits),
            "critical_z": quantile(self.limits.confidence),
            "strata": to_plain(self.strata),
            "rate": self.rate,
            "outcome": self.outcome,
            "favourable": self.favourable,
            "median": self.median,
            "rows": self.rows,
            "notes": to_plain(self.notes),
            "tables": [
                _plain(name, frame, self.tests[name], self.unknown[name]) for name, frame in self.tables.items()
            ],
            "provenance": {name: part for name, part in to_plain(self.provenance).items() if name not in OF_AUDITS},
        }

    def to_json(self, path: str | Path) -> None:
        """Write every number of the tables to a JSON file, atomically."""
        write_json(self.to_dict(), path)

    def _repr_html_(self) -> str:
        from tiltlens._render.html import result_html

        return result_html(self)

    def __repr__(self) -> str:
        return f"RuleTables({self.rule.id}: {', '.join(map(repr, self.tables))})"


def rule_tables(
    data: object,
    rule: str,
    group: str | Sequence[str],
    *,
    selected: object = None,
    scores: object = None,
    favourable: str = "high",
    favorable: str | None = None,
    strata: str | Sequence[str] | None = None,
    ratio_threshold: float | None = None,
    smallest_share: float | None = None,
    confidence: float = 0.95,
    provenance: Mapping[str, str] | None = None,
) -> RuleTables:
    """Make the tables that a published rule describes: rates by group, and their ratios to the highest rate.

    Only the columns of groups, strata and outcome are read, and only counts are kept.

    Parameters
    ----------
    data : data frame, dict of arrays, path, or source
        Rows, one per person, as in `tiltlens.audit`. They need not fit in memory.
    rule : {"four-fifths", "nyc-local-law-144"}
        Rule whose tables are made.
    group : str or list of str
        Column of groups. Several columns give one table each, and one for their intersections.
    selected : str or array-like, default=None
        Decisions, 0 and 1 or two words. Exactly one of `selected` and `scores` is required.
    scores : str or array-like, default=None
        Scores on any scale. The rate of a group is its share above the median of all scores.
    favourable, favorable : {"high", "low"} or str, default="high"
        Outcome that people want, in either spelling: 1 or a high score, 0 or a low score, or one of two words.
    strata : str or list of str, default=None
        Columns of strata within which people are comparable, such as the job they applied for. They add the
        Cochran–Mantel–Haenszel test.
    ratio_threshold : float, default=None
        Impact ratio below which a group is flagged. None takes the rule's.
    smallest_share : float, default=None
        Share of the data below which a group has no impact ratio. None takes the rule's.
    confidence : float, default=0.95
        Confidence level of all intervals.
    provenance : dict of str to str, default=None
        Facts about data and model for readers, such as ``{"data window": "2024"}``.

    Returns
    -------
    RuleTables
        One frame per table, by name, with tests, notes and the rule itself.

    Raises
    ------
    TiltlensError
        If an argument or the data are not valid.

    See Also
    --------
    audit : Measure gaps, and how much of them each feature accounts for.
    read : Read files and databases with options.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women", "men"] * 50, "hired": [0, 1, 1, 1, 0, 0, 1, 1, 0, 1] * 10}
    >>> tables = tl.rule_tables(people, "four-fifths", "sex", selected="hired")
    >>> tables["sex"]["note"].to_list()[1]
    'below the threshold of 0.80'
    """
    chosen, favourable = rule_named(rule), either_spelling(favourable, favorable)
    least, share = ratio_threshold_of(chosen, ratio_threshold), smallest_share_of(chosen, smallest_share)
    limits = Limits(least, share, check_probability("confidence", confidence))
    stated = check_provenance(provenance)
    batches = batches_of(data)
    names = names_of(data, batches)
    attributes = _attributes(chosen, group, names)
    spec = outcome_spec(chosen, selected, scores, favourable, names)
    within = _strata(strata, names)
    _check_apart(group=attributes, strata=within, outcome=spec.columns)
    tally, outcomes = tally_people(data, batches, [*attributes, *within], spec)
    notes = () if batches is None else reading_notes(batches, [*attributes, *within, *spec.columns])
    coded = _coded(tally.people.filter(outcomes.has_outcome), attributes, within, outcomes)
    wanted = [[name] for name in attributes] + ([attributes] if len(attributes) > 1 else [])
    both = {JOINT.join(columns): _rates_and_tests(coded, columns, limits) for columns in wanted}
    frames, tests = ({name: pair[which] for name, pair in both.items()} for which in (0, 1))
    used = int(coded[PEOPLE].sum())
    without_stratum = int(coded.filter(pl.col(STRATUM).is_null())[PEOPLE].sum()) if within else 0
    return RuleTables(
        rule=chosen,
        tables=frames,
        tests=tests,
        unknown={name: used - int(frame["n"].sum()) for name, frame in frames.items()},
        rows={"read": tally.read, "used": used, "missing_outcome": tally.read - used},
        rate=spec.rate,
        outcome=spec.name,
        favourable=spec.favourable,
        median=outcomes.median,
        strata=tuple(within),
        limits=limits,
        notes=(
            *notes,
            *measures.notes_of(chosen, frames, outcomes, spec.favourable, limits),
            *measures.test_notes(tests, within, without_stratum, limits),
        ),
        provenance=provenance_of(tally.read, tally.fingerprint, [], {}, stated),
    )


def _attributes(rule: Rule, group: object, names: list[str]) -> list[str]:
    attributes = group_columns(group, names)
    if not attributes:
        raise DataError(
            f"`group` must name columns of groups for the rule {quoted(rule.id)}, got {quoted(group)}.",
            f"for example 'sex', or ['sex', 'race']; the columns are {quoted_list(names)}.",
        )
    taken = [name for name in attributes if name in {*MEASURES, *TESTS, STRATUM}]
    if taken:
        raise DataError(
            f"The tables have a column {quoted(taken[0])} of their own (`group`).", "rename it in the data."
        )
    return attributes


def _strata(strata: object, names: list[str]) -> list[str]:
    wanted = [] if strata is None else names_in(strata)
    if wanted is None:
        raise DataError(f"`strata` must name columns, got {quoted(strata)}.", f"the columns are {quoted_list(names)}.")
    check_columns("strata", wanted, names)
    return list(dict.fromkeys(wanted))


def _check_apart(group: Sequence[str], strata: Sequence[str], outcome: Sequence[str]) -> None:
    roles = (("`group`", group), ("`strata`", strata), ("the outcome", outcome))
    for (role, columns), (other, others) in combinations(roles, 2):
        for name in set(columns) & set(others):
            raise DataError(
                f"{role} and {other} must be different columns, got {quoted(name)} for both.",
                "name another column for one of them.",
            )


def _coded(table: pl.DataFrame, attributes: Sequence[str], strata: Sequence[str], outcomes: Outcomes) -> pl.DataFrame:
    """Return the attributes as Enums, the stratum's code, the number of people, and how many count towards the rate."""
    columns = []
    for name in attributes:
        codes, labels = level_codes(table[name])
        if len(labels) < 2:
            only = f"{quoted_list(labels)} only" if labels else "missing values only"
            raise DataError(
                f"`group` ({quoted(name)}) must have at least two values, got {only}.",
                "check how the rows were selected.",
            )
        known_codes = pl.Series(codes).replace(NO_GROUP, None)
        columns.append(pl.Series(name, labels, dtype=pl.Enum(labels)).gather(known_codes))
    columns += [_stratum(table, strata)] if strata else []
    counted = table[PEOPLE] * pl.Series(outcomes.counts[outcomes.has_outcome]).cast(pl.Int64)
    return pl.DataFrame([*columns, table[PEOPLE], counted.alias("rate")])  # no attribute has this name


def _stratum(table: pl.DataFrame, strata: Sequence[str]) -> pl.Series:
    """Return a code for each combination of values of the strata columns, null if one is missing."""
    is_known = pl.all_horizontal(pl.col(strata).is_not_null())
    codes = table.select(pl.when(is_known).then(pl.struct(strata).rank("dense")).alias(STRATUM)).to_series()
    if codes.null_count() == codes.len():
        raise DataError(
            f"All values of `strata` ({quoted_list(list(strata))}) are missing.",
            "name a column that is filled, or leave `strata` out.",
        )
    return codes


def _rates_and_tests(coded: pl.DataFrame, columns: Sequence[str], limits: Limits) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tidy table of the groups formed by these columns, and that of tests against the highest rate."""
    groups = _counts(coded, columns)
    names, counts = list(groups), list(groups.values())
    rates = _tidy(columns, names, measures.measure_groups(counts, limits), MEASURES)
    compared, highest = measures.compared_groups(counts, limits)
    if highest is None or counts[highest].counted == 0:
        return rates, _tidy(columns, [], [], TESTS)
    strata = _by_stratum(coded, columns) if STRATUM in coded.columns else None
    others = [index for index in compared if index != highest]
    entries = []
    for index in others:
        pairs = None if strata is None else _pairs(strata[names[index]], strata[names[highest]])
        entry = measures.run_tests(counts[index], counts[highest], pairs, limits)
        entries.append(entry | {"against": JOINT.join(names[highest])})
    return rates, _tidy(columns, [names[index] for index in others], entries, TESTS)


def _counts(coded: pl.DataFrame, columns: Sequence[str]) -> dict[Key, Count]:
    """Return the counts of each group formed by the columns, in the order of their levels."""
    sums = coded.drop_nulls(columns).group_by(columns).agg(pl.col(PEOPLE, "rate").sum()).sort(columns)
    return {(*names,): Count(size, counted) for *names, size, counted in sums.rows()}


def _by_stratum(coded: pl.DataFrame, columns: Sequence[str]) -> dict[Key, dict[int, Count]]:
    counts_of: dict[Key, dict[int, Count]] = defaultdict(dict)
    for (*names, stratum), count in _counts(coded, [*columns, STRATUM]).items():
        counts_of[(*names,)][stratum] = count
    return counts_of


def _pairs(group: dict[int, Count], highest: dict[int, Count]) -> list[tuple[Count, Count]]:
    """Return the counts of both groups in each stratum with people of at least one of them."""
    nobody = Count(0, 0)
    return [(group.get(stratum, nobody), highest.get(stratum, nobody)) for stratum in sorted({*group, *highest})]


def _tidy(columns: Sequence[str], names: list[Key], entries: list[Record], kinds: Kinds) -> pl.DataFrame:
    groups = pl.DataFrame(names, schema=dict.fromkeys(columns, pl.String), orient="row")
    return pl.concat([groups, pl.DataFrame(entries, schema=kinds)], how="horizontal")


def _plain(name: str, frame: pl.DataFrame, tests: pl.DataFrame, unknown: int) -> dict[str, Any]:
    columns = [column for column in frame.columns if column not in MEASURES]
    rows, tested_rows = (
        [
            {"group": {column: row[column] for column in columns}} | {entry: row[entry] for entry in kinds}
            for row in part.to_dicts()
        ]
        for part, kinds in ((frame, MEASURES), (tests, TESTS))
    )
    return {"name": name, "columns": columns, "unknown": unknown, "rows": rows, "tests": tested_rows}
