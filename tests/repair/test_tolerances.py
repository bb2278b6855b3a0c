"""The curve of tolerances: one band over all losses of accuracy, by the same choice of rules as the verdict."""

from functools import cache

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

import tiltlens as tl
from tiltlens._repair.alternatives import EXISTS, INCONCLUSIVE, TOLERANCES, AlternativesByGroup


@cache
def search():
    rng = np.random.default_rng(0)
    mine = rng.random(1_200) < 0.4
    x, z = rng.integers(0, 4, 1_200) - 0.5 * mine, rng.integers(0, 3, 1_200) - 1.0 * mine
    repaid = (rng.random(1_200) < expit(1.5 * x - 2)).astype(int)
    table = {"group": np.where(mine, "a", "b"), "x": x, "z": z, "score": expit(x + z - 2), "repaid": repaid}
    return tl.alternatives(table, "group", reference="b", scores="score", outcome="repaid", tolerance=0.005)["a"]


def test_the_row_of_the_tolerance_is_the_chosen_alternative():
    row = search().tolerances.row(by_predicate=pl.col("tolerance") == 0.005, named=True)
    assert row["accuracy_change"] == pytest.approx(search().accuracy_change.value, abs=1e-12)
    assert row["gap_reduction"] == pytest.approx(search().gap_reduction.value, abs=1e-12)


def test_the_band_is_wider_than_an_interval_and_its_verdicts_follow_from_it():
    table = search().tolerances
    assert table["tolerance"].to_list() == sorted({*TOLERANCES, 0.005})
    row = table.row(by_predicate=pl.col("tolerance") == 0.005, named=True)
    assert row["gap_reduction_high"] > search().gap_reduction.high
    for row in table.to_dicts():
        is_sure = (
            min(row["accuracy_change_low"] + row["tolerance"], row["gap_reduction_low"], row["ratio_gain_low"]) > 0
        )
        assert (row["verdict"] == EXISTS) == is_sure
    assert table["verdict"].is_in([EXISTS, INCONCLUSIVE, "was not found"]).all()


def test_a_larger_loss_buys_a_smaller_gap_in_every_view(tmp_path):
    sizes = search().tolerances["gap_reduction"].to_numpy()
    assert sizes[-1] >= sizes[0] - 0.02
    summary = AlternativesByGroup({"a": search()}).to_dict()
    assert len(summary["comparisons"]["a"]["tolerances"]) == len(sizes)
    search().report(tmp_path / "page.html")
    assert "Accepted loss of" in (tmp_path / "page.html").read_text()
    assert "Accepted loss of" in search()._repr_html_()
