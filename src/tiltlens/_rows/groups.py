"""Groups and periods of rows as codes, their weights and observed outcomes, and which groups are compared.

For unobserved groups, known only by their probabilities, each row has a copy for each group that it may belong to,
weighted by the probability. The copies of a row are one cluster: see docs/methods.md, section 15.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens._estimators.error_rates import UNKNOWN, WITH, WITHOUT
from tiltlens._estimators.influence import Integers
from tiltlens._formats import text_of
from tiltlens._limits import LISTED_VALUES, MINIMUM_ROWS
from tiltlens._notes import Note
from tiltlens._rows.scores import Channel, RowName, kind_of
from tiltlens.errors import DataError, check_columns, names_in, quoted, quoted_list
from tiltlens.paper.checks import Floats

MOST_UNEQUAL = 1e9  # weights: beyond this the smaller ones are lost in the rounding of the sums
Booleans = NDArray[np.bool_]


def scaled_weights(values: Floats, largest: float) -> Floats:
    """Return weights divided by the largest, so that results do not depend on their unit.

    Only twelve digits are kept: the last ones depend on the unit, and trees could break ties by them.
    """
    digits, power = np.frexp(values / (largest or 1.0))
    return np.ldexp(np.round(digits, 12), power)


def check_unequal(least: float, largest: float) -> None:
    """Raise where weights differ so much that the smaller ones are lost in the rounding of the sums."""
    if least < largest / MOST_UNEQUAL:
        raise DataError(
            f"`sample_weight` must not differ by more than a factor of {MOST_UNEQUAL:g}, got {least:g} and "
            f"{largest:g}.",
            "give rows that hardly count the weight 0: they are left out, and counted.",
        )


def check_sample_weight(name: str | None, table: pl.DataFrame, row_name: RowName) -> Floats:
    """Return the given weight of each row; without weights 1, broadcast from one number."""
    if name is None:
        return np.broadcast_to(1.0, table.height)
    column = table[name]
    values = numbers_of("sample_weight", column)
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        row = int(np.argmax(bad))
        if column[row] is None:
            raise DataError(f"`sample_weight` is missing in {row_name(row)}.", "drop such rows, or fill their weights.")
        raise DataError(
            f"`sample_weight` must be finite and not negative, got {column[row]} in {row_name(row)}.",
            "drop such rows, or correct their weights.",
        )
    return values


def equals_mask(column: pl.Series, value: object) -> Booleans:
    """Return which entries are `value`; as texts, so that 1, 1.0, "1" and a boolean True agree."""
    wanted = text_of(value).casefold()
    mine = [entry for entry in column.unique().drop_nulls().to_list() if wanted in _texts(entry)]
    return column.is_in(mine).fill_null(value=False).to_numpy()


def _texts(entry: object) -> set[str]:
    texts = {text_of(entry), text_of(int(entry))} if isinstance(entry, bool) else {text_of(entry)}
    return {text.casefold() for text in texts}


def numbers_of(argument: str, column: pl.Series) -> Floats:
    """Return a column of numbers, NaN where missing."""
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        raise DataError(
            f"`{argument}` must be numbers, got {kind_of(column)} in column {quoted(column.name)}.",
            "name a column of numbers, or convert this one; pass decimal=',' (--decimal ',') for decimal commas.",
        )
    return column.cast(pl.Float64).to_numpy()


MOST_PERIODS = 60  # five years of months: a figure cannot show more
SMALLEST_CHANCE = 1e-6  # of a group: below it a row has no copy in the group
CHANCE_ROUNDING = 0.01  # by which rounded probabilities of groups may exceed a sum of 1
NO_GROUP = -1
JOINT = " & "
MONTH_NAMES: tuple[str, ...] = ("january", "february", "march", "april", "may", "june")
MONTH_NAMES += ("july", "august", "september", "october", "november", "december")
MONTHS = [name[:3] for name in MONTH_NAMES]


class ComparedGroups(NamedTuple):
    """The reference, the audited groups, and the groups too small to compare."""

    reference: str
    audited: tuple[str, ...]
    too_small: Mapping[str, int]


def compared_groups(
    name: str, counts: Mapping[str, int], rows: int, reference: object, audited: object
) -> ComparedGroups:
    """Return the groups to compare, from the size of each group and the user's choice."""
    _check_two_groups(name, counts, rows)
    too_small = {label: count for label, count in counts.items() if count < MINIMUM_ROWS}
    largest = min(counts, key=lambda label: (-counts[label], label))
    chosen = largest if reference is None else _named("reference", reference, counts)
    return ComparedGroups(chosen, _audited(audited, chosen, counts), too_small)


def group_columns(group: object, names: Sequence[str]) -> list[str]:
    """Return the columns that `group` names, none where it is an array of values.

    A list of texts is one of names, unless it is as long as a table and none of its entries is a column.
    """
    columns = names_in(group) or []
    if len(columns) >= 2 * MINIMUM_ROWS and not set(columns) & set(names):
        return []
    check_columns("group", columns, names)
    _check_distinct(columns)
    return columns


def _check_distinct(columns: Sequence[str]) -> None:
    repeated = next((name for name in columns if columns.count(name) > 1), None)
    if repeated is not None:
        raise DataError(f"`group` names the column {quoted(repeated)} twice.", "name each column once.")


def alike_notes(labels: Iterable[str]) -> list[Note]:
    """Return notes on groups whose names differ by spaces or letter case only: most often they are one group."""
    alike: dict[str, list[str]] = {}
    for label in labels:
        alike.setdefault("".join(label.split()).casefold(), []).append(label)
    return [
        Note("similar group names", groups=quoted_list(sorted(spellings)))
        for spellings in alike.values()
        if len(spellings) > 1
    ]


def factorize_groups(name: str, parts: Sequence[pl.Series]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a code per row and the label of each code; a row with a missing part has no group."""
    codes, labels = level_codes(parts[0])
    for part in parts[1:]:
        more, more_labels = level_codes(part)
        joint = np.where((codes >= 0) & (more >= 0), codes * len(more_labels) + more, NO_GROUP)
        pairs, index = np.unique(joint, return_inverse=True)
        first = int(np.searchsorted(pairs, 0))  # 1 where unknown rows are among the pairs
        codes = index.astype(np.int64) - first
        wide = max(len(more_labels), 1)
        labels = tuple(f"{labels[pair // wide]}{JOINT}{more_labels[pair % wide]}" for pair in pairs[first:])
    if len(set(labels)) < len(labels):
        raise DataError(
            f"Groups of `group` ({quoted(name)}) have the same name when their parts are joined by {JOINT!r}.",
            "replace the '&' in the values.",
        )
    return codes, labels


def level_codes(column: pl.Series) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Return a code per row, `NO_GROUP` where missing, and each code's text: in declared, numeric or natural order."""
    levels = column.unique().drop_nulls().sort().to_list()
    if column.dtype == pl.String:
        levels.sort(key=natural_order)
    if column.dtype in (pl.String, pl.Enum):
        codes = column.cast(pl.Enum(levels)).to_physical()
    else:
        codes = column.replace_strict(levels, range(len(levels)), default=None, return_dtype=pl.Int64)
    return codes.cast(pl.Int64).fill_null(NO_GROUP).to_numpy(), tuple(map(text_of, levels))


def natural_order(text: str) -> tuple[object, ...]:
    """Return a sort key by which "item 2" comes before "item 10"."""
    parts = re.split(r"(\d{1,18})", text)  # text and digits alternate, so that like is compared with like
    return tuple(int(part) if index % 2 else part.casefold() for index, part in enumerate(parts)), text


def _check_two_groups(name: str, counts: Mapping[str, int], rows: int) -> None:
    if not counts:
        raise DataError(
            f"`group` ({quoted(name)}) is missing in all {rows} rows.", "pass a column that has group labels."
        )
    if len(counts) == 1:
        raise DataError(
            f"`group` ({quoted(name)}) has the single value {quoted_list(list(counts))}, but an audit compares groups.",
            "check the filter before the audit.",
        )
    large = [label for label, count in counts.items() if count >= MINIMUM_ROWS]
    if len(large) < 2:
        sizes = ", ".join(f"{quoted(label)} {count}" for label, count in list(counts.items())[:20])
        raise DataError(
            f"`group` ({quoted(name)}) needs two groups of at least {MINIMUM_ROWS} rows. Rows: {sizes}.",
            "join groups, bin a numeric column, or add rows.",
        )


def _named(argument: str, value: object, counts: Mapping[str, int]) -> str:
    """Return the label of a value that the user named; raise if the group is missing or too small."""
    label = group_key(value)
    check_columns(argument, [label], list(counts), "group")
    if counts[label] < MINIMUM_ROWS:
        raise DataError(
            f"Group {quoted(label)} has {counts[label]} rows, but `{argument}` needs at least {MINIMUM_ROWS}.",
            "join it with another group, or add rows.",
        )
    return label


def group_key(value: object) -> str:
    """Return the label of a group; an intersection may be given as a tuple of its parts."""
    if isinstance(value, tuple):
        return JOINT.join(text_of(part) for part in value)
    return text_of(value)


def _audited(audited: object, reference: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    if audited is None:
        return tuple(label for label, count in counts.items() if label != reference and count >= MINIMUM_ROWS)
    is_intersection = isinstance(audited, tuple) and group_key(audited) in counts
    values = [audited]
    if isinstance(audited, Iterable) and not isinstance(audited, str) and not is_intersection:
        values = list(audited)
    if not values:
        raise DataError("`audited` names no group.", "leave it out to audit every group.")
    labels = tuple(dict.fromkeys(_named("audited", value, counts) for value in values))
    if reference in labels:
        raise DataError(
            f"`audited` and `reference` are the same group, {quoted(reference)}.",
            f"name another `reference`. Available groups: {quoted_list(list(counts))}.",
        )
    return labels


def soft_columns(group: object, names: Sequence[str]) -> dict[str, str]:
    """Return the column of each group's probability; none where `group` is not a dict."""
    if not isinstance(group, Mapping):
        return {}
    column_of = {text_of(label): column for label, column in group.items()}
    columns = list(column_of.values())
    if len(column_of) < 2 or not all(isinstance(column, str) for column in columns):
        raise DataError(
            f"`group` must name a column of probabilities for two groups or more, got {quoted(group)}.",
            'for example {"Black": "p_black", "White": "p_white"}.',
        )
    check_columns("group", columns, names)
    _check_distinct(columns)
    return column_of


def check_known_groups(known_groups: object, soft: Mapping[str, str]) -> None:
    """Raise where known groups are given although a column has the groups."""
    if known_groups is not None and not soft:
        raise DataError(
            f"`known_groups` ({quoted(known_groups)}) applies only where `group` gives probabilities.",
            "name the column as `group` alone; or pass each group's column of probabilities (--group-probability).",
        )


def group_chances(columns: Sequence[str], table: pl.DataFrame, row_name: RowName) -> Floats:
    """Return the probability of each group, (n, groups); NaN in all of a row where one is missing."""
    chances = np.column_stack([numbers_of("group", table[name]) for name in columns])
    missing = np.isnan(chances).any(axis=1)
    chances[missing] = np.nan
    outside = (chances < 0.0) | (chances > 1.0)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise DataError(
            f"`group` must give probabilities between 0 and 1, got {chances[row, column]:g} in "
            f"{quoted(columns[column])}, {row_name(int(row))}.",
            "divide percentages by 100; leave the cell empty where the probability is unknown.",
        )
    totals = chances.sum(axis=1)
    above = totals > 1.0 + CHANCE_ROUNDING
    if above.any():
        row = int(np.argmax(above))
        raise DataError(
            f"The probabilities of `group` sum to {totals[row]:g} in {row_name(row)}, which is more than 1.",
            "groups must exclude each other; divide each row by its sum if the probabilities were rounded.",
        )
    return np.where(chances < SMALLEST_CHANCE, 0.0, chances)


def read_periods(column: pl.Series) -> pl.Series:
    """Return the period of each row as a text, null where it is missing."""
    codes, labels = level_codes(column)
    texts = pl.Series([*labels, None], dtype=pl.String)
    return texts.gather(np.where(codes < 0, len(labels), codes))


def sort_periods(periods: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct periods in order, names of months by the calendar; at most one more than the limit."""
    different = set(periods)
    months = {period: period.strip()[:3].casefold() for period in different}
    are_months = all(
        short in MONTHS and MONTH_NAMES[MONTHS.index(short)].startswith(period.strip(" .").casefold())
        for period, short in months.items()
    )
    ordered = sorted(different, key=(lambda period: MONTHS.index(months[period])) if are_months else natural_order)
    return tuple(ordered[: MOST_PERIODS + 1])


def check_periods(periods: tuple[str, ...], is_soft: bool) -> None:
    """Raise if there are too few periods to compare or too many to show, or if groups are unobserved."""
    if is_soft:
        raise DataError(
            "`periods` is not supported where `group` gives probabilities.",
            "audit each period by itself, and compare with tl.compare.",
        )
    if len(periods) > MOST_PERIODS:
        raise DataError(
            f"`periods` has more than {MOST_PERIODS} values: {quoted_list(periods[:3])}, …", "make them months."
        )
    if len(periods) < 2:
        raise DataError(f"`periods` needs at least two values, got {quoted_list(periods) or 'none'}.", "leave it out.")


def encode_periods(texts: pl.Series, periods: tuple[str, ...]) -> Integers:
    """Return the index of each row's period; the number of periods if it is missing."""
    codes = texts.cast(pl.Enum(periods), strict=False).to_physical().cast(pl.Int64)
    return codes.fill_null(len(periods)).to_numpy()


FEW_LISTED = 6  # values of an outcome that a message lists
CRITERIA = {"fpr": WITHOUT, "fnr": WITH}  # by metric, the outcome of the people to whom it applies
DECIDED = {"fdr": 1, "for": 0}  # by metric of decisions, the decision of the people to whom it applies
METRICS = (*CRITERIA, *DECIDED)
Meant = dict[str, int | None]  # the values of a column, and the outcome that each means; None if it is not a known name
PLAIN = {"0": WITHOUT, "1": WITH, "false": WITHOUT, "true": WITH}


def check_metric(metric: object, outcome: object, score_type: str) -> None:
    """Raise unless the metric is known, applies to the score type, and an outcome is given."""
    if metric is not None and metric not in METRICS:
        raise DataError(
            f"`metric` must be one of {', '.join(map(repr, METRICS))}, got {quoted(metric)}.",
            "leave it out to audit the gap in the scores themselves.",
        )
    if metric is not None and outcome is None:
        raise DataError(
            f"`metric` must come with `outcome`, got {quoted(metric)} alone.",
            "name the column of observed outcomes, for example outcome='repaid'.",
        )
    if metric is not None and score_type != "probability":
        raise DataError(
            f"`metric` must be left out for score_type={quoted(score_type)}, got {quoted(metric)}.",
            "an error rate is of probabilities or decisions.",
        )


def wrong_decisions(metric: str, channel: Channel, y_true: Integers) -> Channel:
    """Return the channel of wrong decisions (1 if wrong), of which the favourable outcome is a correct decision."""
    if channel.outcomes != 2 or not np.isin(channel.scores[~channel.missing], (0.0, 1.0)).all():
        raise DataError(
            f"`metric` must be 'fpr' or 'fnr' for scores, got {quoted(metric)}.",
            "give `threshold`, the score from which the decision is 1.",
        )
    wrong = np.where(channel.missing, np.nan, (y_true == WITH) != (channel.scores == 1.0))
    return replace(channel, scores=wrong, kind="decisions", favourable=0, labels=("correct", "wrong"), words=None)


def outcome_names(channel: Channel, favourable: object) -> dict[str, int]:
    """Return the outcome that each name means: 0 and 1, and the names of the scores' outcomes if they have any."""
    if channel.words is not None:
        return PLAIN | {text_of(favourable).casefold(): WITH}
    if channel.outcomes > 2:
        return PLAIN
    return PLAIN | {label.casefold(): outcome for outcome, label in enumerate(channel.labels)}


def outcome_codes(column: pl.Series, names: dict[str, int]) -> tuple[Integers, Meant]:
    """Return 0, 1 or `UNKNOWN` for each row, and some of the values: `check_outcome` judges those of all rows.

    An unknown value counts as 0, because of two words one determines the other.
    """
    values = column.drop_nulls().unique().sort().to_list()
    meanings = {text_of(value): names.get(text_of(value).casefold()) for value in values}
    has_it = column.is_in([value for value in values if meanings[text_of(value)] == WITH]).fill_null(value=False)
    codes = np.where(column.is_null().to_numpy(), UNKNOWN, has_it.to_numpy())  # True is `WITH`
    return codes, dict(list(meanings.items())[:LISTED_VALUES])


def observed_costs(column: pl.Series) -> Floats:
    """Return the observed cost of each row, NaN where it is missing."""
    costs = numbers_of("outcome", column)
    if np.isinf(costs).any():
        raise DataError(
            f"`outcome` must be finite costs, got {costs[np.isinf(costs)][0]} in column {quoted(column.name)}.",
            "leave unknown costs empty.",
        )
    return costs


def _is_number(value: str) -> bool:
    """Return whether a value is a number: with 1 and 2 it is unclear which is the outcome."""
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def check_outcome(meanings: Meant, classes: int) -> None:
    """Raise unless the values found are two outcomes of which one is known to be 1, or one of these two."""
    if classes > 2:
        raise DataError(
            f"`outcome` must be left out for scores of {classes} classes, got one.",
            "pass the probability of one class, or a column of decisions, as `scores`.",
        )
    values, meant = list(meanings), list(meanings.values())
    if len(values) > 2:
        few = quoted_list(values) if len(values) <= FEW_LISTED else f"{quoted_list(values[:FEW_LISTED])} and more"
        raise DataError(f"`outcome` must have two values, got {few}.", "make a column of 0 and 1 first.")
    has_one_name = set(meant) == {None, WITH} and not any(_is_number(value) for value in values if value not in PLAIN)
    if not has_one_name and (None in meant or len(set(meant)) < len(values) or not values):
        got = quoted_list(values) if values else "only missing values"
        raise DataError(
            f"`outcome` must be 0 and 1, or name what the score is the probability of, got {got}.",
            "write it as 0 and 1; 1 is what a score of 1 predicts.",
        )
