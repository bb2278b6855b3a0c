"""However a table is held, the sample's rows and the sums over all rows are the same: all that audits are made of."""

from dataclasses import fields, is_dataclass
from functools import cache, partial

import numpy as np
import polars as pl
import pytest
from tests.people import FEATURES, SOURCES, classed

from tiltlens import _pipeline
from tiltlens._rows.compared_rows import select_groups, select_rows
from tiltlens._rows.roles import FeatureChoice, Request
from tiltlens._rows.survey import survey_batch
from tiltlens.paper.correction import GroupMoments

CLASSES = ["none", "some", "all"]
WAYS = {
    "everything": {
        "propensity": "chance",
        "sample_weight": "uneven",
        "clusters": "person",
        "outcome": "repaid",
        "periods": "month",
    },
    "classes": {"scores": CLASSES, "favourable": "some", "sample_weight": "weight"},
    "amounts": {"scores": "amount", "score_type": "amount", "propensity": "chance", "sample_weight": "weight"},
    "decisions in words": {"scores": "decision", "favourable": "approved"},
    "probabilities of groups": {"group": {"A": "chance", "B": "other"}, "known_groups": "group"},
}
NUMBERED = {"row_number", "is_numbered"}  # rows have numbers where their order is kept


@cache
def table():
    """Return people with everything that an audit may be asked about."""
    random = np.random.default_rng(4)
    size = classed().height
    return classed().with_columns(
        person=pl.Series(random.integers(0, 150, size)),
        month=pl.Series(random.choice(["2024-01", "2024-02"], size)),
        repaid=pl.Series(random.integers(0, 2, size)),
        amount=1_000 + 3_000 * pl.col("score"),
        decision=pl.when(pl.col("score") >= 0.5).then(pl.lit("approved")).otherwise(pl.lit("denied")),
        other=1 - pl.col("chance"),
    )


def rows_and_sums(data, way):
    """Return what an audit makes of a table before it estimates anything: 150 rows, and sums over all.

    Rows with copies in several groups are drawn by their numbers, which not all sources have: all of them are taken.
    """
    options = {"group": "group", "scores": "score"} | WAYS[way]
    source = _pipeline._open(data, Request(features=FeatureChoice(FEATURES), **options))
    size = 1_000 if source.roles.soft else 150
    survey = source.batches.fold(source.columns, partial(survey_batch, source.roles, size, {}))
    sample = select_rows(source.roles, survey, select_groups(source.roles, survey, "B", None))
    parts = {"rows": sample.rows, "table": sample.table.to_dict(), "sums": _pipeline._sums(source, survey, sample)}
    return dict(leaves(parts | {"people": survey.people, "seen": survey.read}))


def leaves(value, path=""):
    """Yield what dataclasses and mappings hold in the end, and where."""
    if isinstance(value, GroupMoments):  # whose mean has two parts, as batches came
        value = {name: getattr(value, name) for name in ("rows", "weight", "mean", "scatter")}
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, tuple):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for name in sorted(value.keys() - NUMBERED, key=str):
            yield from leaves(value[name], f"{path}.{name}")
    else:
        yield path, value.to_list() if isinstance(value, pl.Series) else value


@cache
def in_one_batch(way):
    return rows_and_sums(table(), way)


@pytest.mark.parametrize("held", SOURCES, indirect=True)
@pytest.mark.parametrize("way", WAYS)
def test_every_source_gives_the_same_rows_and_sums(held, way, request):
    expected = in_one_batch(way)
    request.getfixturevalue("small_batches")
    found = rows_and_sums(held(table()), way)
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        if isinstance(value, (float, np.ndarray)):
            np.testing.assert_allclose(found[path], value, rtol=1e-9, atol=1e-9, err_msg=path)
        else:
            assert found[path] == value, path
