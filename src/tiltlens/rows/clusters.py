"""Rows that belong together, such as those of one customer: what is said of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl

from tiltlens.estimators.influence import Integers
from tiltlens.limits import FEWEST_APART, REPEATED_IDS, SUPPRESSED_BELOW
from tiltlens.sources.hashing import Hashes

IDENTIFIER = re.compile(r"(^|[\W_])(id|ID|Id|uuid|UUID)$|[a-z](ID|Id)$")


def cluster_note(name: str, clusters: Hashes, group: Integers) -> str:
    """Return how many clusters there are, and how many of them have rows of several groups."""
    pairs = np.unique(np.column_stack([clusters, group.astype(np.uint64)]), axis=0)[:, 0]
    count = len(np.unique(pairs))
    several = len(pairs) - count
    shown = f"{several:,}" if several >= SUPPRESSED_BELOW else f"fewer than {SUPPRESSED_BELOW}"
    mixed = f", {shown} of them with rows of several groups" if several else ""
    return f"errors are those of clusters ({name}): {len(group):,} rows in {count:,} clusters{mixed}"


def repeated_ids(table: pl.DataFrame) -> Iterator[str]:
    """Yield a note on columns that are named like an identifier and whose values repeat: such rows err together."""
    for name in table.columns:
        distinct = table[name].n_unique() if IDENTIFIER.search(name) else table.height
        if FEWEST_APART <= distinct <= REPEATED_IDS * table.height:
            yield (
                f"values of {name} repeat: if equal ones are one person, name it with `clusters` (--clusters); without "
                "it, every interval takes its rows for people of their own"
            )
