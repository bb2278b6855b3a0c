"""Error rates of decisions do not reveal how many people have the outcome, where that number is suppressed."""

import numpy as np

import tiltlens as tl


def errors(few, threshold=0.5):
    """Return the error rates of a group of 17, of whom `few` are without the outcome, beside 200 others."""
    rng = np.random.default_rng(0)
    group = np.array(["small"] * 17 + ["large"] * 200)
    repaid = np.concatenate([np.arange(17) >= few, rng.random(200) < 0.6]).astype(int)
    score = np.clip(0.3 + 0.4 * repaid + rng.normal(0, 0.1, 217), 0, 1)
    table = {"group": group, "repaid": repaid, "score": score}
    options = {"reference": "large", "scores": "score", "outcome": "repaid", "features": [], "threshold": threshold}
    return tl.audit(table, "group", **options)["small"].error_rates


def test_a_rate_of_few_kinds_is_not_shown_beside_a_suppressed_number(worded):
    found = errors(few=2)  # 15 with the outcome: a rate of 1/15 = 6.7 % would tell that 2 are without
    assert found.people["audited"]["with"] is None
    assert (found.fpr, found.fnr) == (None, None)
    worded(found.reasons["fnr"])
    assert "audited" not in found.by_decile["group"].to_list()  # rates of deciles add up to it
    assert "reference" in found.by_decile["group"].to_list()


def test_nothing_is_kept_back_where_nobody_is_without_the_outcome():
    found = errors(few=0)
    assert (found.people["audited"]["with"], found.fnr is not None) == (17, True)


def test_a_mean_of_scores_reveals_no_number():
    found = errors(few=2, threshold=None)
    assert (found.people["audited"]["with"], found.fnr is not None, found.fpr) == (None, True, None)
