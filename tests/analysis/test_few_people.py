"""Features and shortfalls of audits of few people, of rare decisions, of weights, and of amounts that hardly differ."""

import numpy as np
import polars as pl
import pytest
from tests.people import note_codes

import tiltlens as tl
from tiltlens._estimators.verdicts import Verdict
from tiltlens._notes import Note

BANDS = [f"{name}_{end}" for name in ("alone", "beyond_others", "shapley") for end in ("low", "high")]


def few(counted, audited=30, others=400, rate=None):
    """Return people of whom `counted` audited ones and a tenth of the others have a flag, and a membership column."""
    rng, size = np.random.default_rng(0), audited + others
    flag = np.concatenate([np.arange(audited) < counted, np.arange(others) % 10 == 0])
    x = rng.standard_normal(size)
    score = 0.3 + 0.3 * flag + 0.1 * np.tanh(x)
    if rate is not None:
        score = (rng.random(size) < rate).astype(float)
    group = np.where(np.arange(size) < audited, "B", "A")
    return pl.DataFrame({"g": group, "s": score, "flag": flag, "x": x, "p": audited / size})


def audited(table, **options):
    return tl.audit(table, "g", reference="A", scores="s", **options)["B"]


def rows_of(c):
    return {row["feature"]: row for row in c.contributions_full.to_dicts()}


def test_a_feature_whose_rarer_value_few_have_is_not_judged_and_has_no_band():
    found = rows_of(audited(few(0), propensity="p"))
    row = found["flag"]
    assert row["verdict"] == Verdict.NOT_ASSESSED
    assert row["reason"] == Note("rare value", minimum=10, group="B")
    assert row["alone"] < -0.02
    assert [row[name] for name in BANDS] == [None] * 6
    assert found["x"]["verdict"] != Verdict.NOT_ASSESSED
    assert None not in [found["x"][name] for name in BANDS]
    assert rows_of(audited(few(9), propensity="p"))["flag"]["alone_low"] is not None


def test_no_feature_is_judged_where_few_have_the_rarer_decision():
    for row in audited(few(6, 100, rate=0.02), propensity="p").contributions_full.to_dicts():
        assert (row["verdict"], row["alone_low"]) == (Verdict.NOT_ASSESSED, None)
        assert row["reason"] == Note("rare decision", minimum=10, group="B")


def test_audits_of_rare_values_can_be_compared():
    old, new = (tl.audit(few(k), "g", reference="A", scores="s", propensity="p") for k in (0, 6))
    change = {row["feature"]: row for row in tl.compare(old, new, paired=False)["B"].features.to_dicts()}
    assert (change["flag"]["verdict"], change["flag"]["alone_change_low"]) == (Verdict.NOT_ASSESSED, None)
    assert change["x"]["alone_change_low"] < change["x"]["alone_change"] < change["x"]["alone_change_high"]


@pytest.mark.parametrize("weights", [np.full(430, 5), np.arange(430) % 3 + 1])
def test_a_shortfall_counts_the_people_that_rows_stand_for(weights):
    table = few(6, rate=0.4).with_columns(w=weights)
    written = table[np.repeat(np.arange(430), weights)]
    weighted, repeated = audited(table, sample_weight="w", features=[]), audited(written, features=[])
    assert weighted.shortfall.value == pytest.approx(repeated.shortfall.value, rel=1e-9)
    assert weighted.shortfall.value == pytest.approx(-weights[:30].sum() * weighted.gap.value, rel=1e-9)


@pytest.mark.parametrize("amount", [5.0, 0.1, 1e15, 0.0])
def test_a_constant_amount_has_no_contributions(amount):
    rounded = np.where(np.arange(430) % 2, np.nextafter(amount, 2 * amount), amount) if amount else 0.0
    c = audited(
        few(6).with_columns(s=pl.lit(rounded) if amount == 0.0 else rounded), score_type="amount", propensity="p"
    )
    assert (c.gap.value, c.gap.low, c.gap.high) == (0.0, 0.0, 0.0)
    for row in c.contributions_full.to_dicts():
        assert (row["verdict"], row["alone"], row["beyond_others"]) == (Verdict.NO_MATERIAL_CONTRIBUTION, 0.0, 0.0)
    assert "constant amounts" in note_codes(c)


def test_real_differences_of_large_amounts_are_seen():
    table = few(6, 100).with_columns(s=1e15 + 20.0 * (pl.col("g") == "B") + (pl.int_range(pl.len()) % 7))
    near = table.with_columns(pl.col("s") - 1e15)
    large, small = (audited(one, score_type="amount", features=[]) for one in (table, near))
    assert large.gap.to_dict() == pytest.approx(small.gap.to_dict(), rel=1e-9)
    assert "constant amounts" not in note_codes(large)
    odd = few(6, 100).with_columns(s=pl.when(pl.int_range(pl.len()) == 7).then(1e12).otherwise(pl.col("x") + 9))
    assert "constant amounts" not in note_codes(audited(odd, score_type="amount", features=[]))
