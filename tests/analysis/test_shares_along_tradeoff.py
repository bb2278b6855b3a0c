"""Shares along the dial agree with the table of proxy evidence at its ends and middle."""

import pytest

import tiltlens as tl
from tiltlens._learners.candidates import outcome_scores
from tiltlens.datasets import COMPAS_FEATURES, load_compas


@pytest.fixture(scope="module")
def plug_in():
    data = load_compas()
    scores = outcome_scores(data, COMPAS_FEATURES, "is_recid")
    audit = tl.audit(data, group="race", reference="Caucasian", scores=scores, features=COMPAS_FEATURES, folds=None)
    return audit["African-American"]


def test_the_dial_meets_the_table_at_its_ends_and_middle(plug_in):
    found = plug_in.correction.shares_along_tradeoff(positions=3)
    assert found["feature"].unique(maintain_order=True).to_list() == plug_in.contributions_full["feature"].to_list()
    for place, column in enumerate(("share_inputs", "share", "share_outputs")):
        here = found.filter(found["position"] == place / 2)["share"].to_list()
        assert here == pytest.approx(plug_in.contributions_full[column].to_list(), abs=1e-9)
    assert found["low"].null_count() == len(found)


def test_a_dial_needs_two_positions(plug_in):
    with pytest.raises(tl.TiltlensError, match="positions"):
        plug_in.correction.shares_along_tradeoff(positions=1)
