"""Groups whose people all have one decision: rows show no spread, which is not the same as certainty."""

import numpy as np
import pytest

import tiltlens as tl
from tiltlens._documents.headline import adjusted_gap


def audited(score, **options):
    """Return the comparison of 60 audited people with 340 others, with two features that say nothing."""
    rng = np.random.default_rng(0)
    data = {
        "group": np.repeat(["A", "B"], [340, 60]),
        "income": rng.normal(size=400),
        "city": rng.choice(["u", "v"], 400),
        "score": score,
    }
    return tl.audit(data, "group", reference="A", scores="score", **options)


@pytest.mark.parametrize("rate", [0.0, 0.06])
def test_the_adjusted_gap_is_as_unsure_as_the_gap_where_no_audited_person_has_the_outcome(rate):
    rng = np.random.default_rng(1)
    score = (np.arange(400) < 340) & (rng.random(400) < rate)
    c = audited(score.astype(int))["B"]
    assert c.adjusted_gap.low <= c.gap.low
    assert c.adjusted_gap.high >= c.gap.high - 1e-9


def test_equal_scores_are_the_reason_of_an_adjusted_gap_of_0(worded):
    """It was "because the model sees nothing but the listed features", of an audit that had no model."""
    (line,) = adjusted_gap(audited(np.full(400, 0.5))["B"])
    worded(line)
