"""Several audited groups: gap and adjusted gap are judged for all of them at once, and who fares worse comes first."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import tiltlens as tl
from tiltlens._documents.document import by_gap
from tiltlens._documents.sentences import findings
from tiltlens._estimators.estimate import Estimate, quantile

OPTIONS = {"group": "group", "reference": "R", "scores": "pay", "score_type": "amount"}


def nobody_differs(seed, rows=400, groups="ABCDEFGH"):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 3, rows)
    return {"group": rng.choice(["R", *groups], rows), "x": x, "pay": 100 + 5 * x + rng.normal(0, 10, rows)}


def test_intervals_of_gap_and_adjusted_gap_hold_for_both_groups_at_once():
    table, model = nobody_differs(0, groups="AB"), {"propensity": LogisticRegression()}
    every, wider = (tl.audit(table, confidence=level, **OPTIONS, **model) for level in (0.95**2, 0.95))
    alone = tl.audit(table, audited=["A"], features=[], **OPTIONS)["A"]
    assert every["A"].gap.to_dict() == pytest.approx(alone.gap.to_dict(), rel=1e-9)
    for name in ("gap", "adjusted_gap"):
        widths = [one.high - one.low for one in (getattr(audit["A"], name) for audit in (wider, every))]
        assert widths[0] / widths[1] == pytest.approx(quantile(0.95**0.5) / quantile(0.95), rel=0.01)  # Student's t
    assert wider["A"].impact_ratio.to_dict() == pytest.approx(alone.impact_ratio.to_dict(), rel=1e-9)  # one group's
    assert "all 2 groups together" in " ".join(str(wider).split())


def test_changes_of_the_gap_hold_for_both_groups_at_once():
    table = nobody_differs(0, groups="AB")
    new = table | {"pay": 1.1 * table["pay"]}
    both, alone = (
        tl.compare(*(tl.audit(one, features=[], **OPTIONS, **asked) for one in (table, new)))["A"]
        for asked in ({}, {"audited": ["A"], "confidence": 0.95**0.5})
    )
    assert both.changes["gap"].to_dict() == pytest.approx(alone.changes["gap"].to_dict(), rel=1e-9)


def test_of_eight_groups_without_a_difference_few_audits_claim_one():
    alone = every = 0
    for seed in range(30):
        audit = tl.audit(nobody_differs(seed), features=[], **OPTIONS)
        t = [abs(c.gap.value) / (c.gap.high - c.gap.low) for c in audit.comparisons.values()]
        every += max(t) > 0.5
        alone += max(t) > 0.5 * quantile(0.95) / quantile(0.95 ** (1 / 8))  # the level of one group
    assert every <= 4 < 6 <= alone  # of 30


@pytest.fixture(scope="module")
def defaults():
    """Return probabilities of default: of the young twice as high, of the old half."""
    rng = np.random.default_rng(0)
    age = rng.choice(["young", "middle", "old"], 900)
    risk = np.select([age == "young", age == "old"], [0.08, 0.01], 0.04) * rng.uniform(0.5, 1.5, 900)
    options = {"reference": "middle", "scores": "risk", "favourable": "low", "features": []}
    return tl.audit({"age": age, "risk": risk}, "age", **options)


def test_who_fares_worse_comes_first(defaults):
    assert list(by_gap(defaults)) == ["young", "old"]
    young = replace(defaults["young"], gap=Estimate(0.001))
    assert list(by_gap(replace(defaults, comparisons={"young": young, "old": defaults["old"]}))) == [
        "young",
        "old",
    ]  # also with the smaller gap


def test_beside_favourable_rates_near_one_stands_the_ratio_of_the_others(defaults):
    c = defaults["young"]
    risks = [1 - rate.value for rate in c.rates]
    (line,) = [line for line in findings(defaults, c, is_only=True) if "unfavourable" in line]
    divided = f"{risks[0]:.1%} ÷ {risks[1]:.1%}, young ÷ middle"
    assert f" {risks[0] / risks[1]:.2f} ({divided})." in line
    assert risks[0] / risks[1] > 1.8
