"""What sums of growing data say at a look."""

from __future__ import annotations

import numpy as np
import pytest

from tiltlens._analysis.periods import Measured, track
from tiltlens._estimators.influence import Rows
from tiltlens._estimators.outputs import Scores, impact_ratio


def test_the_ratio_of_a_group_whose_decisions_are_all_favourable_has_the_error_of_an_audit():
    audited, reference = np.ones(20), np.repeat([1.0, 0.0], [3_000, 1_000])
    tracked = track(sum_by_outcome(audited), sum_by_outcome(reference), Measured(False, False, False))["impact_ratio"]
    rows = Rows.of(np.repeat([True, False], [audited.size, reference.size]))
    law = impact_ratio(rows, Scores.of(rows, np.concatenate([audited, reference])).outcome(1)).normal
    assert tracked.value == pytest.approx(law.value)
    assert tracked.se == pytest.approx(law.se, rel=1e-3)


def sum_by_outcome(decisions):
    """Return n, Σw, Σw², ΣwW, Σw²W, Σw²W² of decisions about people whose outcome is not known."""
    count, favourable = decisions.size, decisions.sum()
    return np.array([np.zeros(6), np.zeros(6), [count, count, count, favourable, favourable, favourable]])
