"""`tl.read`: one source for all that takes data."""

import numpy as np
import polars as pl
import pytest
from tests.people import lending

import tiltlens as tl
from tiltlens.errors import DataError

QUESTION = {"group": "group", "reference": "b", "audited": "a", "scores": "score", "features": ["region", "years"]}


@pytest.fixture
def table():
    rows = lending(600).filter(pl.col("group") != "c").select("group", "region", "years", "score")
    is_repaid = np.random.default_rng(0).random(rows.height) < rows["score"].to_numpy()
    return rows.with_columns(repaid=is_repaid.astype(int))


@pytest.fixture
def source(table, tmp_path):
    """Return the rows as a CSV file in which years that are 7 are written as "seven"."""
    table = table.with_columns(years=table["years"].cast(str).replace("7", "seven"))
    path = tmp_path / "rows.csv"
    path.write_bytes(table.write_csv(separator=";").encode("utf-16"))
    return tl.read(path, na_values="seven", encoding="utf-16")


@pytest.fixture
def frame(table):
    years = table["years"]
    return table.with_columns(years=years.set(years == 7, None))


def test_audits_adjustments_and_alternatives_take_a_source(source, frame):
    found, expected = (tl.audit(data, folds=None, **QUESTION)["a"] for data in (source, frame))
    assert found.gap.value == pytest.approx(expected.gap.value, abs=1e-12)
    tilt = found.repair(use_group=True)
    np.testing.assert_allclose(tilt.apply(source, "score", "group"), tilt.apply(frame, "score", "group"), rtol=1e-9)
    best = [tl.alternatives(data, outcome="repaid", **QUESTION)["a"].to_dict() for data in (source, frame)]
    assert best[0]["accuracy"] == best[1]["accuracy"]


def test_a_source_holds_no_more_than_the_path_and_its_options(tmp_path):
    missing = tl.read(tmp_path / "missing.csv", na_values=["-9"])  # nothing is read yet
    assert missing.options.na_values == ("-9",)
    with pytest.raises(DataError, match="File not found"):
        tl.audit(missing, **QUESTION)
    url = "postgresql://me:secret@host/people"
    assert "secret" not in repr(tl.read(url, query="SELECT 1"))


@pytest.mark.parametrize("path", [{"x": [1]}, lending(20), [], [1], None])
def test_only_names_of_files_and_databases_are_read(refused, path):
    with refused(DataError, "`path`"):
        tl.read(path)
