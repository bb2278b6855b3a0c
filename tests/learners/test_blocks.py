"""Does the basis grow where the data show that it must, and only there?"""

import numpy as np
import polars as pl
import pytest
from scipy.special import expit, ndtri
from tests.people import note_codes

import tiltlens as tl
from tiltlens._estimators.feature_gap import Residuals, hidden_of
from tiltlens._estimators.verdicts import EVIDENCE, Verdict
from tiltlens._learners.design import digits, normal_scores


def residuals(random, cells, size):
    """Return residuals whose means given a cell are e_c and m_c, and E[e_c·m_c] over D."""
    codes = random.integers(0, cells, size)
    e, m = random.normal(0, 0.2, cells), random.normal(0, 0.1, cells)
    group, score = e[codes] + random.normal(0, 0.4, size), m[codes] + random.normal(0, 0.3, size)
    omega, spread = np.full(size, 1 / size), 0.2
    return Residuals(group, score, omega, spread), codes, float((e * m).mean()) / spread


def _hidden(residuals, codes):
    return hidden_of(residuals.sums(codes), residuals.spread)


def test_hidden_part_is_unbiased_and_its_standard_error_is_right():
    """(17a), with 12 rows a cell: cell means' own noise must not count."""
    rng = np.random.default_rng(0)
    found = [(*_hidden(one, codes), true) for one, codes, true in (residuals(rng, 25, 300) for _ in range(400))]
    value, se, true = np.array(found).T
    assert (value - true).mean() == pytest.approx(0.0, abs=4 * (value - true).std() / 20)
    nothing = [
        _hidden(Residuals(rng.normal(size=300), rng.normal(size=300), *_even(300)), _codes(rng)) for _ in range(400)
    ]
    t = np.array([u / e for u, e in nothing])
    assert t.mean() == pytest.approx(0.0, abs=0.2)
    assert t.std() == pytest.approx(1.0, abs=0.15)
    assert (se > 0).all()


def _even(size):
    return np.full(size, 1 / size), 1.0


def _codes(random):
    return random.integers(0, 25, 300)


def test_normal_scores_are_those_of_midranks_and_invariant_to_monotone_transforms():
    x = np.array([3.0, 1.0, np.nan, 2.0, 2.0])
    found = normal_scores({"x": x}, np.full(5, 0.2))["x"]
    np.testing.assert_allclose(found[[1, 0]], ndtri([0.125, 0.875]), atol=1e-12)
    assert found[3] == found[4] == pytest.approx(ndtri(0.5))
    assert np.isnan(found[2])
    np.testing.assert_array_equal(normal_scores({"x": np.exp(7 * x)}, np.full(5, 0.2))["x"], found)


def world(hidden, **features):
    """Return people whose group and score follow a function of their features, and a number that drives the score."""
    random = np.random.default_rng(0)
    z, chance = random.normal(size=SIZE), expit(1.2 * hidden)
    group = np.where(random.random(SIZE) < chance, "a", "b")
    score = expit(-0.2 + 0.8 * hidden + 0.5 * z)
    return pl.DataFrame({"g": group, "score": score, "chance": chance, "z": z, **features})


def found_in(table, membership="chance"):
    """Return the audit, and the row of each feature; the membership is given where its fit is not the matter."""
    table = table.drop("chance") if membership is None else table
    c = tl.audit(table, "g", reference="b", scores="score", propensity=membership)["a"]
    return c, {row["feature"]: row for row in c.contributions_full.to_dicts()}


SIZE = 1500
RANDOM = np.random.default_rng(1)
FOUR, OTHER = RANDOM.integers(0, 4, SIZE), RANDOM.integers(0, 4, SIZE)
DAY = RANDOM.integers(0, 730, SIZE)
CODE = RANDOM.integers(0, 60, SIZE)
EFFECT = np.random.default_rng(2).normal(size=60)[CODE]
X, Y = RANDOM.normal(size=(2, SIZE))
FLAGS = RANDOM.integers(0, 2, (3, SIZE))
HOME = RANDOM.integers(0, 60, SIZE)
WORK = np.where(RANDOM.random(SIZE) < 0.4, HOME, RANDOM.integers(0, 60, SIZE))
CITIES = {"home": HOME.astype(str), "work": WORK.astype(str)}
REPORTED = np.random.default_rng(3).integers(10_000, 99_999, SIZE)
ROUNDED = np.where(np.random.default_rng(4).random(SIZE) < 0.4, REPORTED // 10 * 10, REPORTED)
PRICE = np.where(np.random.default_rng(5).random(SIZE) < 0.4, REPORTED // 100 * 100 + 99, REPORTED) / 100
TWO_CATEGORIES = (np.where(FOUR % 2 == OTHER % 2, 1.0, -1.0), {"one": FOUR.astype(str), "two": OTHER.astype(str)})
THREE_FLAGS = (np.where(FLAGS.sum(axis=0) % 2, 1.0, -1.0), dict(zip(("one", "two", "three"), FLAGS, strict=True)))
WORLDS = {
    "two categories": TWO_CATEGORIES,
    "slope by category": (np.where(FOUR < 2, X, -X), {"one": FOUR.astype(str), "two": X}),
    "weekend": (1.5 * (DAY % 7 > 4), {"one": np.datetime64("2022-01-03") + DAY.astype("timedelta64[D]")}),
    "difference of two numbers": (np.where(X > Y, 1.0, -1.0), {"one": X, "two": Y}),
    "three flags": THREE_FLAGS,
    "round numbers": (np.where(ROUNDED % 10 == 0, 1.0, -1.0), {"one": ROUNDED}),
    "prices that end in 99": (np.where(np.isclose(PRICE % 1, 0.99), 1.0, -1.0), {"one": PRICE}),
    "the same city": (np.where(HOME == WORK, 1.0, -1.0), CITIES),
    "the same city by other names": (np.where(HOME == WORK, 1.0, -1.0), CITIES | {"work": WORK + 1000}),
}


@pytest.mark.parametrize("name", WORLDS)
def test_features_that_act_in_a_way_simple_columns_miss_are_potential_proxies(name):
    hidden, features = WORLDS[name]
    c, rows = found_in(world(hidden, **features))
    for feature in features:
        assert rows[feature]["verdict"] in EVIDENCE
        assert max(rows[feature][f"{kind}_high"] for kind in ("alone", "beyond_others")) > 0.8 * c.gap.value


@pytest.mark.parametrize("hidden_features", [TWO_CATEGORIES, THREE_FLAGS], ids=["two categories", "three flags"])
def test_a_parity_leaves_no_adjusted_gap_and_no_sentence_about_the_group(hidden_features):
    hidden, features = hidden_features
    c, _ = found_in(world(hidden, **features), membership=None)
    assert c.adjusted_gap.low <= 0.0 <= c.adjusted_gap.high
    assert abs(c.adjusted_gap.value) < 0.005 < abs(c.gap.value)
    assert "not accounted for" not in note_codes(c)


def test_codes_give_the_same_contribution_as_numbers_and_as_texts():
    first, second = (found_in(world(EFFECT, code=stored))[1]["code"] for stored in (CODE * 7 % 61, CODE.astype(str)))
    assert first["alone"] == pytest.approx(second["alone"], abs=1e-9)
    assert first["beyond_others"] == pytest.approx(second["beyond_others"], abs=0.01)
    assert first["verdict"] == second["verdict"] == "potential proxy"


def test_monotone_transforms_move_results_by_less_than_half_a_standard_error():
    table = world(X, x=X, y=Y)
    _, rows = found_in(table)
    _, moved = found_in(table.with_columns(x=pl.col("x").exp() * 3, y=(3 * pl.col("y")).sinh()))
    for name, row in rows.items():
        assert moved[name]["verdict"] == row["verdict"]
        for kind in ("alone", "beyond_others"):
            se = (row[f"{kind}_high"] - row[f"{kind}_low"]) / 5.2
            assert abs(moved[name][kind] - row[kind]) < max(0.5 * se, 1e-4)  # a hundredth of a point


def test_features_that_do_nothing_are_immaterial_beside_a_basis_that_misses_nothing():
    _, rows = found_in(world(X, x=X, y=Y, one=FOUR.astype(str)), membership=None)
    assert rows["y"]["verdict"] == rows["one"]["verdict"] == Verdict.NO_MATERIAL_CONTRIBUTION
    assert rows["x"]["verdict"] == "potential proxy"


def test_a_column_that_is_constant_but_for_a_missing_value_joins_no_pair():
    rng = np.random.default_rng(0)
    table = {"g": rng.choice(["a", "b"], 400), "x": rng.normal(size=400), "area": rng.choice(["u", "v", "z"], 400)}
    table |= {"w": pl.Series([None, *[1.0] * 399]), "score": rng.random(400)}
    assert tl.audit(table, "area", reference="u", scores="score")["v"].adjusted_gap is not None


def test_digits_are_those_of_decimal_numbers_whatever_their_last_place():
    (roundness, ending), tenth = digits(np.array([1000.0, 1500.0, 1234.0, 20.0, np.nan])), 0.1 * np.array([1, 20, 300])
    assert np.diff(roundness[[4, 2, 3, 1, 0]]).min() > 0  # missing, to one, to ten, to five hundred, to a thousand
    assert ending.tolist() == [101, 101, 105, 101, 100]
    assert [part.tolist() for part in digits(tenth)][1] == [102, 101, 101]
    assert set(list(digits(np.append(np.arange(200.0), np.full(50, 7.0))))[1]) == {7, *range(101, 111)}
    assert not list(digits(np.array([np.pi, np.e, np.nan])))
