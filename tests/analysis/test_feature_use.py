"""Whether the score uses a feature, or the feature stands in for one that is used."""

import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from tests.wording import code_of

import tiltlens as tl
from tiltlens._analysis.feature_use import _find_copies
from tiltlens._estimators.influence import Rows
from tiltlens._estimators.use import Use, cell_products, estimate_uses, squared_uses
from tiltlens._estimators.verdicts import Verdict
from tiltlens._gates import gate
from tiltlens._notes import SCORES_BEHIND, Note

ROWS = 600
RNG = np.random.default_rng(3)
GROUP = RNG.random(ROWS) < 0.5
U = 1.2 * GROUP + RNG.standard_normal(ROWS)
PEOPLE = pl.DataFrame(
    {
        "group": np.where(GROUP, "B", "A"),
        "income": 50 + 10 * U,
        "district": 0.9 * U + 0.4 * RNG.standard_normal(ROWS),
        "dollars": 1.1 * (50 + 10 * U),
        "chance": expit(1.2 * U - 0.72),  # of the group, which shows in the income alone
    }
)
SCORE = expit(U)


def score_of(income):
    """Return the score, which is a function of the income."""
    return expit((np.asarray(income, dtype=float) - 50) / 10)


def audited(*names, scores=SCORE, **options):
    """Return the rows of the table by feature, and the comparison."""
    frame = PEOPLE.select("group", *names, "chance")
    given = {} if "model" in options else {"scores": scores}
    c = tl.audit(frame, "group", reference="A", propensity="chance", **given, **options)["B"]
    return {row["feature"]: row for row in c.contributions_full.to_dicts()}, c


@pytest.fixture(scope="module")
def scored():
    return audited("income", "district")


@pytest.fixture(scope="module")
def asked():
    return audited("income", "district", "dollars", model=lambda rows: score_of(rows["income"]))


def test_an_unused_feature_is_a_stand_in_for_the_one_that_is_used(scored):
    rows, _ = scored
    assert rows["district"]["verdict"] == "stand-in"
    unused, correlated = rows["district"]["reason"].split("; ")
    assert code_of(unused) in ("scores do not use", "scores hardly use")
    assert Note("stand-in", unused=unused, others="income") == f"{unused}; {correlated}"
    assert rows["district"]["alone_low"] > 0.005  # it contributes all the same
    assert rows["income"]["verdict"] == "potential proxy"
    assert rows["income"]["use_low"] > 0.1


def test_a_stand_in_has_no_shapley_contribution_and_the_others_add_up(scored):
    rows, c = scored
    district = rows["district"]
    assert (district["shapley"], district["shapley_low"], district["shapley_high"]) == (0.0, 0.0, 0.0)
    assert rows["income"]["shapley"] + c.gap_parts.shapley_remainder == pytest.approx(c.gap.value)


def test_a_gate_counts_stand_ins_apart_from_proxies(scored):
    _, c = scored
    counts = {name: gate(f"{name}>0")._counted(c) for name in ("potential_proxies", "stand_ins")}
    assert counts == {"potential_proxies": 1.0, "stand_ins": 1.0}


def stepped(u):
    """Return scores with steps, which ridge regressions do not reproduce."""
    return 0.2 + 0.1 * np.digitize(u, (-0.5, 0.3, 0.9, 1.6, 2.2))


def test_an_unused_feature_is_a_stand_in_for_one_with_steps():
    rows, _ = audited("income", "district", scores=stepped(U))
    assert rows["district"]["verdict"] == "stand-in"
    assert rows["income"]["verdict"] == "potential proxy"
    assert rows["income"]["use_low"] > 0.05


def test_a_step_of_its_own_makes_a_feature_no_stand_in():
    step = 0.05 * (PEOPLE["district"].to_numpy() > 0.8)
    rows, _ = audited("income", "district", scores=stepped(U) + step)
    assert rows["district"]["verdict"] == "potential proxy"
    assert rows["district"]["use_low"] < 0.03 < rows["district"]["use_high"]


def test_a_step_of_its_own_among_few_people_makes_a_feature_no_stand_in():
    kind = RNG.choice(["a", "b", "c"], ROWS, p=[0.5, 0.3, 0.2])
    step = 0.1 * ((PEOPLE["district"].to_numpy() > 0.8) & (kind == "c"))
    frame = PEOPLE.select("group", "income", "district", "chance").with_columns(kind=pl.Series(kind))
    c = tl.audit(frame, "group", reference="A", propensity="chance", scores=stepped(U) + step)["B"]
    district = c.contributions_full.filter(feature="district").row(0, named=True)
    assert district["verdict"] == "potential proxy"
    assert district["use_low"] < 0.03 < district["use_high"]


@pytest.mark.parametrize("is_stepped", [False, True])
def test_a_wave_that_no_curve_follows_makes_a_feature_no_stand_in(is_stepped):
    rng = np.random.default_rng(4)
    group = rng.random(3000) < 0.5
    income = 0.8 * group + rng.standard_normal(3000)
    district = 0.8 * income + 0.6 * rng.standard_normal(3000)
    scores = (stepped(income) if is_stepped else 0.9 * expit(income)) + 0.01 * np.sin(15 * district)
    columns = {"income": income, "district": district, "scores": scores, "chance": expit(0.8 * income - 0.32)}
    frame = pl.DataFrame({"group": group.astype(str)} | columns)
    c = tl.audit(frame, "group", reference="False", scores="scores", propensity="chance")["True"]
    row = c.contributions_full.filter(feature="district").row(0, named=True)
    assert row["verdict"] == Verdict.PROXY_OR_STAND_IN
    assert row["use_high"] > 0.01


def test_of_two_copies_scores_with_steps_tell_neither():
    rows, _ = audited("income", "dollars", scores=stepped(U))
    reason = "the scores use at least one of dollars and income; the data do not show which"
    assert {row["reason"] for row in rows.values()} == {reason}


def test_of_two_copies_the_scores_tell_neither():
    rows, _ = audited("income", "dollars")
    for name in ("income", "dollars"):
        assert rows[name]["verdict"] == Verdict.PROXY_OR_STAND_IN
        assert rows[name]["reason"] == Note("one of several used", output="score", features="dollars and income")
        assert abs(rows[name]["shapley"]) > 0.05


def test_a_feature_that_is_used_a_little_beside_its_copy_leaves_others_stand_ins():
    small = {"district": Use(0.0, 0.0, 0.001), "grade": Use(0.001, 0.0, 0.002), "years": Use(0.004, 0.003, 0.004)}

    def measure(sets):
        return [
            Use(0.1, 0.09, 0.11) if {"grade", "years"} <= set(names) else max(map(small.get, names)) for names in sets
        ]

    copies, dropped = _find_copies(small, measure, 0.005)
    assert copies == {"years": ("grade",), "grade": ("years",)}
    assert dropped == ["district"]


def test_features_whose_small_uses_add_up_are_no_copies():
    small = {"district": Use(0.0, 0.0, 0.003), "street": Use(0.002, 0.0, 0.004)}
    assert _find_copies(small, lambda sets: [Use(0.002, 0.001, 0.006)], 0.005) == ({}, ["district"])
    copies, dropped = _find_copies(small, lambda sets: [Use(0.02, 0.001, 0.1)], 0.005)
    assert (copies, dropped) == ({"district": ("street",), "street": ("district",)}, [])


def test_a_model_that_is_asked_settles_copies(asked):
    rows, _ = asked
    assert rows["income"]["verdict"] == "potential proxy"
    for name in ("dollars", "district"):
        assert rows[name]["verdict"] == "stand-in"
        assert Note("model never changed", rows=600, share=3 / 600) in rows[name]["reason"]
        assert (rows[name]["use"], rows[name]["shapley"]) == (0.0, 0.0)


def test_a_feature_that_a_model_does_not_take_is_not_used():
    class Model:
        feature_names_in_ = ("income",)

        def predict_proba(self, rows):
            chance = score_of(np.asarray(rows)[:, 0])
            return np.column_stack([1 - chance, chance])

    rows, _ = audited("income", "district", model=Model(), features=["income", "district"])
    assert rows["district"]["reason"].startswith(Note("not an input"))


def test_decisions_make_no_stand_ins():
    rows, c = audited("income", "district", scores=(RNG.random(ROWS) < SCORE) * 1.0)
    assert {row["verdict"] for row in rows.values()} <= {Verdict.POTENTIAL_PROXY, Verdict.PROXY_OR_STAND_IN}
    assert SCORES_BEHIND in rows["district"]["reason"]
    assert gate("potential_proxies>1")._counted(c) == 2.0  # what may be a proxy must not pass


def test_the_unused_one_of_two_near_copies_is_not_accused_of_decisions_at_a_threshold():
    rng, n = np.random.default_rng(4), 3_000
    audited = rng.random(n) < 0.5
    used = rng.normal(size=n) + 0.7 * audited
    near, other = used + 0.2 * rng.normal(size=n), rng.normal(size=n)
    decision = (0.8 * other - 0.6 * used - 0.9 > 0.0) * 1.0
    table = pl.DataFrame({"near": near, "used": used, "other": other, "score": decision})
    table = table.with_columns(g=pl.Series(np.where(audited, "a", "b")))
    c = tl.audit(table, "g", reference="b", scores="score")["a"]
    row = c.contributions.filter(feature="near").row(0, named=True)
    # Products of `near` and `other` joined the basis, those of `used` did not: use was 0.31 (95% CI 0.21 to 0.38).
    assert (row["verdict"], row["use_low"]) == (Verdict.PROXY_OR_STAND_IN, 0.0)


def test_use_of_few_values_is_that_of_their_means():
    rng = np.random.default_rng(1)
    rows = Rows.of(rng.random(2000) < 0.5)
    x, y = rng.integers(0, 2, (2, 2000))
    score = 0.5 + 0.1 * x * rows.audited
    cells = [2 * x + y, y, x]  # of both, without x, without y
    products, alone = cell_products(rows, score, cells)
    assert alone == 0.0
    used, unused = estimate_uses(squared_uses(rows, products), 0.95)
    assert used.low < 2 * np.sqrt(0.5 * 0.25 * 0.1**2) < used.high
    assert unused.high == pytest.approx(0.0, abs=1e-6)


def test_noise_of_few_values_is_not_use():
    rng = np.random.default_rng(2)
    rows = Rows.of(rng.random(1000) < 0.5)
    x = rng.integers(0, 20, 1000)
    found = [
        squared_uses(rows, cell_products(rows, rng.standard_normal(1000), [x, np.zeros_like(x)])[0]).values[0]
        for _ in range(200)
    ]
    assert abs(np.mean(found)) < 3 * np.std(found) / np.sqrt(200)
