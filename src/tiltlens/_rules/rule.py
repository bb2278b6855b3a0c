"""A published rule as data, and people counted by group, stratum and outcome, batch by batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files

import numpy as np
import polars as pl

from tiltlens._estimators.influence import Booleans
from tiltlens._formats import FieldTable
from tiltlens._results.codec import from_plain
from tiltlens._results.outputs import fingerprint_of
from tiltlens._rows.roles import OUTCOME, PEOPLE, must_be_column
from tiltlens._rows.sampled_rows import row_name
from tiltlens._rows.scores import RowName, decisions_in_words, favourable_word, is_words, kind_of
from tiltlens._sources.engines import frame_of
from tiltlens._sources.tables import Batches, FrameBatches, check_index, checked_columns, column_names, column_of_values
from tiltlens.errors import DataError, check_columns, nearest_name, quoted, quoted_list
from tiltlens.paper.checks import Floats, check_share, check_threshold


@dataclass(frozen=True, slots=True)
class Rule(FieldTable):
    """A rule that compares rates of groups.

    Attributes
    ----------
    id, title
        The rule's name in arguments, and its title for readers.
    compares, denominator
        What the rule compares, and the denominator of its ratios.
    rates
        "selection" (of 0/1 decisions), "scoring" (of scores above the median), or both.
    threshold
        Impact ratios below it are flagged; None if the text states none.
    smallest_share
        Groups with a smaller share of the data have no impact ratio; None if the text states none.
    attributes, intersections
        The attributes that the text names, and its rule for intersections.
    citation, dated
        The publication and its date.
    status, status_dated, status_source
        Whether it is in force, on which date, and the source.
    does_not_decide
        What its table does not decide.
    """

    id: str
    title: str
    compares: str
    rates: tuple[str, ...]
    denominator: str
    threshold: float | None
    smallest_share: float | None
    attributes: tuple[str, ...]
    intersections: str
    citation: str
    dated: str
    status: str
    status_dated: str
    status_source: str
    does_not_decide: str


@cache
def known_rules() -> dict[str, Rule]:
    """Return the rules that are included in the package, by id."""
    folder = files("tiltlens._rules")
    texts = [file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".json")]
    rules = [from_plain(Rule, json.loads(text)) for text in texts]
    return {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}


def rule_named(name: object) -> Rule:
    """Return the rule with this id; raise if it is unknown."""
    rules = known_rules()
    if not isinstance(name, str) or name not in rules:
        nearest = nearest_name(name, list(rules))
        suggestion = f"did you mean {quoted(nearest)}? " if nearest is not None else ""
        raise DataError(
            f"Unknown rule {quoted(name)} (`rule`).", f"{suggestion}The rules are {quoted_list(list(rules))}."
        )
    return rules[name]


def ratio_threshold_of(rule: Rule, ratio_threshold: object = None) -> float | None:
    """Return the requested threshold of impact ratios, by default the rule's."""
    if ratio_threshold is None:
        return rule.threshold
    return check_threshold(ratio_threshold, name="ratio_threshold", hint="for example 0.8.")


def smallest_share_of(rule: Rule, smallest_share: object = None) -> float:
    """Return the requested smallest share of the data, by default the rule's; 0 leaves no group out."""
    if smallest_share is None:
        return rule.smallest_share or 0.0
    return check_share("smallest_share", smallest_share, "0.02 is 2% of the data; 0 leaves no group out.")


MOST_TALLIED = 2_000_000  # combinations of values: with more, a column is an identifier and would fill the memory


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeSpec:
    """The outcome to count: its argument, its column (or an array passed separately), and the favourable value."""

    argument: str
    value: object
    favourable: str

    @property
    def is_selection(self) -> bool:
        """Whether the outcome is a decision, not a score."""
        return self.argument == "selected"

    @property
    def rate(self) -> str:
        """The rate that is compared, as rules name it."""
        return "selection" if self.is_selection else "scoring"

    @property
    def name(self) -> str:
        """The name of the outcome."""
        return next(iter(self.columns), self.argument)

    @property
    def columns(self) -> list[str]:
        """The column of the outcome; empty for an array."""
        return [self.value] if isinstance(self.value, str) else []

    @property
    def column(self) -> str:
        """The column that is read: that of the outcome, or the one to which an array is added."""
        return next(iter(self.columns), OUTCOME)


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Which tallied rows count towards the rate (`counts`), and which have an outcome (`known`).

    `median`, and `at_median`, the number of people with exactly this score, are None for selections.
    """

    counts: Booleans
    has_outcome: Booleans
    median: float | None = None
    at_median: int | None = None


def outcome_spec(rule: Rule, selected: object, scores: object, favourable: str, names: list[str]) -> OutcomeSpec:
    """Return the outcome to count; raise unless exactly one of `selected` and `scores` is given."""
    if (selected is None) == (scores is None):
        got = "neither `selected` nor `scores`" if selected is None else "both `selected` and `scores`"
        raise DataError(
            f"The rule {quoted(rule.id)} needs one outcome, got {got}.",
            "`selected` names decisions (0 and 1, or two words); `scores` names numbers, compared with their median.",
        )
    argument, value = ("selected", selected) if scores is None else ("scores", scores)
    spec = OutcomeSpec(argument, value, favourable)
    if spec.rate not in rule.rates:
        raise DataError(
            f"The rule {quoted(rule.id)} compares selection rates, so it needs `selected`, not `scores`.",
            "pass the decisions made from the scores as a column of 0 and 1.",
        )
    check_columns(argument, spec.columns, names)
    return spec


def checked_outcome(spec: OutcomeSpec, column: pl.Series, row_name: RowName) -> Floats:
    """Return the outcome of a batch as numbers, NaN where missing; raise if it cannot be counted."""
    if spec.is_selection and is_words(column):
        return decisions_in_words(spec.argument, column, spec.favourable)[0]
    numbers = checked_numbers(spec, column)
    if spec.favourable not in ("high", "low"):
        raise DataError(
            f"`favourable` must be 'high' or 'low', got {quoted(spec.favourable)}.",
            "'high' if people want 1 or a high score, 'low' if they want 0 or a low score.",
        )
    bad = ~np.isnan(numbers) & ~np.isin(numbers, (0.0, 1.0)) if spec.is_selection else np.isinf(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        rule, hint = "finite", "any scale will do; fill or drop rows without a score."
        if spec.is_selection:
            rule, hint = "0 or 1", "pass scores as `scores`, or the decisions made from them."
        raise DataError(f"`{spec.argument}` must be {rule}, got {numbers[row]:g} in {row_name(row)}.", hint)
    return numbers


def checked_numbers(spec: OutcomeSpec, column: pl.Series) -> Floats:
    """Return an outcome as numbers, NaN where missing; raise for other types."""
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        rule = "0 and 1, or two words" if spec.is_selection else "numbers"
        raise DataError(
            f"`{spec.argument}` must be {rule}, got {kind_of(column)} in column {quoted(spec.name)}.",
            "convert it first.",
        )
    return column.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _outcomes_of(spec: OutcomeSpec, people: pl.DataFrame, middle: tuple[float, float] | None) -> Outcomes:
    """Return which tallied rows count towards the rate; `middle` has the two middle scores."""
    column, is_high = people[OUTCOME], spec.favourable != "low"
    if spec.is_selection and is_words(column):
        numbers, words = decisions_in_words(spec.argument, column, spec.favourable)
        favourable_word(spec.argument, spec.favourable, words)
        is_high = True
    else:
        numbers = checked_numbers(spec, column)
    is_observed = ~np.isnan(numbers)
    if not is_observed.any():
        raise DataError(f"All values of `{spec.argument}` are missing.", "check the column.")
    if middle is None:
        return Outcomes(is_observed & (numbers == is_high), is_observed)
    low, high = middle
    at_median = int(people.filter(pl.Series(numbers == 0))[PEOPLE].sum())
    counts = is_observed & (numbers > 0 if is_high else numbers < 0)
    return Outcomes(counts, is_observed, low if low == high else low / 2 + high / 2, at_median)


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """The number of equal rows, added with `+`."""

    read: int
    fingerprint: int  # the sum of the rows' hashes modulo 2^64
    people: pl.DataFrame  # distinct combinations of groups, strata and `OUTCOME`, with their `PEOPLE`

    def __add__(self, other: Tally) -> Tally:
        both = pl.concat([self.people, other.people], how="vertical_relaxed")
        return Tally(self.read + other.read, (self.fingerprint + other.fingerprint) % 2**64, _summed(both))


def _summed(people: pl.DataFrame) -> pl.DataFrame:
    keys = [name for name in people.columns if name != PEOPLE]
    counts = people.group_by(keys).agg(pl.col(PEOPLE).sum())
    if counts.height > MOST_TALLIED:
        raise DataError(
            f"`group` and `strata` have more than {MOST_TALLIED:,} values together.",
            "name columns that many people share; an identifier is neither a group nor a stratum.",
        )
    return counts


def tally_people(
    data: object, batches: Batches | None, keys: Sequence[str], spec: OutcomeSpec
) -> tuple[Tally, Outcomes]:
    """Return the tally of people by keys and outcome (for scores, side of the median), and which of its rows count."""
    opened = _opened(data, batches, [*keys, *spec.columns], spec)
    middle = None if spec.is_selection else _middle(opened, spec)
    step = partial(_count_batch, tuple(keys), spec, middle)
    tally: Tally = opened.fold([*keys, spec.column], step)
    return tally, _outcomes_of(spec, tally.people, middle)


def _opened(data: object, batches: Batches | None, columns: Sequence[str], spec: OutcomeSpec) -> Batches:
    """Return the columns of the data as batches; an outcome that is an array is added as a column."""
    if batches is not None:
        if not spec.columns:
            raise must_be_column(spec.argument, spec.value)
        checked_columns(batches.names(), columns)
        return batches
    frame = frame_of(data, columns)
    frame = frame.select(checked_columns(column_names(frame), columns))
    if not spec.columns:
        check_index(spec.argument, spec.value, data)
        frame = frame.with_columns(column_of_values(spec.argument, spec.value, frame.height).alias(OUTCOME))
    return FrameBatches(frame)


def _count_batch(
    keys: tuple[str, ...], spec: OutcomeSpec, middle: tuple[float, float] | None, table: pl.DataFrame
) -> Tally:
    """Return the tally of one batch; the other arguments are sent to every worker."""
    numbers = checked_outcome(spec, table[spec.column], row_name(table))
    outcome = table[spec.column] if middle is None else _sides(numbers, *middle)
    rows = table.select(keys).with_columns(outcome.alias(OUTCOME), pl.lit(1, pl.Int64).alias(PEOPLE))
    return Tally(table.height, fingerprint_of(table.select(*keys, *spec.columns)), _summed(rows))


def _sides(numbers: Floats, low: float, high: float) -> pl.Series:
    """Return −1 for scores below the median, 1 above it, 0 for ties with it, and null for missing scores.

    No score lies between the two middle ones, so comparisons with them avoid the rounding of their mean.
    """
    side = (numbers > low).astype(np.int8) - (numbers < high).astype(np.int8)
    return pl.select(pl.when(pl.Series(~np.isnan(numbers))).then(pl.Series(side))).to_series()


def _middle(batches: Batches, spec: OutcomeSpec) -> tuple[float, float]:
    """Return the two middle scores, equal for an odd number of scores; the column is loaded into memory."""
    parts: list[Floats] = batches.fold([spec.column], partial(_known_numbers, spec))
    numbers = np.concatenate(parts)
    if not numbers.size:
        return np.nan, np.nan
    ranks = ((numbers.size - 1) // 2, numbers.size // 2)
    low, high = np.partition(numbers, ranks)[list(ranks)].tolist()
    return low, high


def _known_numbers(spec: OutcomeSpec, table: pl.DataFrame) -> list[Floats]:
    """Return the non-missing scores of a batch, in a list so that batches can be added with `+`."""
    numbers = checked_outcome(spec, table[spec.column], row_name(table))
    return [numbers[~np.isnan(numbers)]]
