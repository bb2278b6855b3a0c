"""Notes on the data: columns that are features by mistake, such as old scores or row numbers, and repeated people.

Nothing is left out and no verdict changes because of a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tiltlens.estimators.influence import Integers
from tiltlens.limits import SUPPRESSED_BELOW
from tiltlens.paper.checks import Floats
from tiltlens.rows.features import Feature
from tiltlens.sources.hashing import Hashes
from tiltlens.sources.messages import listed
from tiltlens.threads import in_threads

RANKED_ROWS = 5_000  # that tell whether a feature repeats the score: ranks of more take longer and say the same
REPEATED_R2 = 0.99  # of the score by one feature, above which it is the score or what was made from it
REPEATED_RANKS = 0.999  # the same of the rank correlation
REPEATED_IDS = 0.95  # distinct values a row, below which an identifier repeats by no accident
FEWEST_APART = 10  # rows that differ from the most frequent value: the order of fewer is chance
IDENTIFIER = re.compile(r"(^|[\W_])(id|ID|Id|uuid|UUID)$|[a-z](ID|Id)$")
HINT = "leave it out with `exclude` (--exclude)"


def leakage_notes(
    features: Sequence[Feature],
    score: Floats,
    row_numbers: Integers,
    seen: Sequence[str],
    output: str,
    where: Iterable[str],
) -> Iterator[str]:
    """Yield a note on each kind of column that is hardly a feature.

    `seen` are the columns from which the audited model makes the score, which is called `output`; `where` those that
    select rows or hold outcomes. The first rows are looked at: their order must tell nothing about them.
    """
    at = np.arange(min(score.size, RANKED_ROWS))
    few = [feature.rows(at) for feature in features]
    others = [feature for feature in few if feature.name not in set(seen)]
    is_repeated = in_threads(lambda feature: _repeats(feature, score[at]), others, at.size)
    repeating = [feature.name for feature, repeats in zip(others, is_repeated, strict=True) if repeats]
    if repeating:
        old = "amount" if output == "amount" else "score or a decision"
        yield f"{listed(repeating)} alone gives the {output}: if it is a label, an old {old}, {HINT}"
    order = np.argsort(row_numbers[at])
    counting = [feature.name for feature in few if _counts_rows(feature, order)]
    if counting:
        yield f"{listed(counting)} rises or falls from row to row: if it is a row number, {HINT}"
    named = [feature.name for feature in features if any(_words(name) <= _words(feature.name) for name in where)]
    if named:
        yield f"{listed(named)} is named like a column of `where` or the `outcome`: if it is an outcome, {HINT}"


def _words(name: str) -> set[str]:
    return set(re.split(r"[\W_]+", name.casefold()))


def _counts_rows(feature: Feature, order: Integers) -> bool:
    """Return whether whole numbers rise, or fall, with every row."""
    if feature.kind not in ("numeric", "identifier") or feature.values is None:
        return False
    steps = np.diff(feature.values[order])
    is_whole = bool((feature.values == np.floor(feature.values)).all())
    return is_whole and steps.size >= FEWEST_APART and bool((steps > 0).all() or (steps < 0).all())


def _repeats(feature: Feature, score: Floats) -> bool:
    """Return whether the score follows from the feature, or the feature from the order of the scores."""
    if not _varies(feature.codes) or not _varies(score):
        return False
    if _explained(feature.codes, score) > REPEATED_R2:
        return True
    has_order = feature.values is not None or feature.is_ordered or len(feature.labels) == 2
    values = feature.codes.astype(np.float64) if feature.values is None else feature.values
    is_observed = ~np.isnan(values)
    values, score = values[is_observed], score[is_observed]
    if not (has_order and _varies(values) and _varies(score)):
        return False
    linear = np.corrcoef(values / np.abs(values).max(), score)[0, 1]  # squares of huge numbers overflow
    ranks = np.corrcoef(pl.Series(values).rank(), pl.Series(score).rank())[0, 1]
    is_close = bool(linear**2 > REPEATED_R2 or abs(ranks) > REPEATED_RANKS)
    return is_close or _is_monotone(values, score)


def _varies(values: NDArray[np.generic]) -> bool:
    """Return whether enough rows differ from the most frequent value."""
    _, counts = np.unique(values, return_counts=True)
    return bool(values.size - counts.max(initial=0) >= FEWEST_APART)


def _explained(codes: Integers, score: Floats) -> float:
    """Return R² of the score on the means of a feature's levels, adjusted for their number."""
    people, centred = np.bincount(codes), score - score.mean()
    levels = int((people > 0).sum())
    between = float((np.bincount(codes, centred) ** 2 / np.maximum(people, 1)).sum())
    return 1.0 - (1.0 - between / float(centred @ centred)) * (score.size - 1) / max(score.size - levels, 1)


def _is_monotone(values: Floats, score: Floats) -> bool:
    """Return whether values never fall, or never rise, with the score, as with decisions made from it."""
    order = np.argsort(score, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(score[order]) > 0])
    least, most = (end.reduceat(values[order], starts) for end in (np.minimum, np.maximum))
    return bool((most[:-1] <= least[1:]).all() or (least[:-1] >= most[1:]).all())


def cluster_note(name: str, clusters: Hashes, group: Integers) -> str:
    """Return how many clusters there are, and how many of them have rows of several groups."""
    pairs = np.unique(np.column_stack([clusters, group.astype(np.uint64)]), axis=0)[:, 0]
    count = len(np.unique(pairs))
    several = len(pairs) - count
    count_text = f"{several:,}" if several >= SUPPRESSED_BELOW else f"fewer than {SUPPRESSED_BELOW}"
    mixed = f", {count_text} of them with rows of several groups" if several else ""
    return f"standard errors are clustered ({name}): {len(group):,} rows in {count:,} clusters{mixed}"


def repeated_ids(table: pl.DataFrame) -> Iterator[str]:
    """Yield a note on columns that are named like an identifier and whose values repeat: such rows err together."""
    for name in table.columns:
        distinct = table[name].n_unique() if IDENTIFIER.search(name) else table.height
        if FEWEST_APART <= distinct <= REPEATED_IDS * table.height:
            yield (
                f"values of {name} repeat. If equal values are one person, pass it as `clusters` (--clusters); "
                "otherwise intervals are too narrow"
            )
