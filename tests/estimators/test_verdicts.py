"""Verdicts by their bands, row by row of the design's table, and the factor that makes one band of many numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.wording import code_of

import tiltlens as tl
from tiltlens._estimators.estimate import Materiality, is_significant, materiality, quantile, side_of
from tiltlens._estimators.verdicts import EVIDENCE, Band, Verdict, bands, simultaneous_factor, verdict

MATERIALITY = 0.005
ROWS = 10_000


def band(low, high):
    return Band((low + high) / 2, low, high, (high - low) / 2, (high - low) / 5)


def judged(gap, joint=None, partner=None):
    return verdict(gap, joint, MATERIALITY, ROWS, partner)


BEYOND, INSIDE, NOTHING = band(0.006, 0.02), band(0.001, 0.004), band(-0.001, 0.002)
ACROSS, OPEN = band(0.001, 0.009), band(-0.002, 0.008)


def mirrored(one):
    return None if one is None else Band(-one.value, -one.high, -one.low, one.reach, one.se)


@pytest.mark.parametrize(
    ("gap", "joint", "expected"),
    [
        (BEYOND, None, Verdict.POTENTIAL_PROXY),
        (BEYOND, BEYOND, Verdict.POTENTIAL_PROXY),
        (BEYOND, NOTHING, Verdict.POTENTIAL_PROXY),
        (BEYOND, OPEN, Verdict.POTENTIAL_PROXY),
        (NOTHING, BEYOND, Verdict.IN_COMBINATION),
        (OPEN, BEYOND, Verdict.IN_COMBINATION),
        (ACROSS, BEYOND, Verdict.IN_COMBINATION),
        (NOTHING, NOTHING, Verdict.NO_MATERIAL_CONTRIBUTION),
        (INSIDE, NOTHING, Verdict.NO_MATERIAL_CONTRIBUTION),
        (NOTHING, INSIDE, Verdict.NO_MATERIAL_CONTRIBUTION),
        (INSIDE, None, Verdict.NO_MATERIAL_CONTRIBUTION),
        (ACROSS, NOTHING, Verdict.SIZE_UNCLEAR),
        (NOTHING, ACROSS, Verdict.SIZE_UNCLEAR),
        (ACROSS, OPEN, Verdict.SIZE_UNCLEAR),
        (OPEN, ACROSS, Verdict.SIZE_UNCLEAR),
        (ACROSS, None, Verdict.SIZE_UNCLEAR),
        (OPEN, NOTHING, Verdict.INCONCLUSIVE),
        (NOTHING, OPEN, Verdict.INCONCLUSIVE),
        (OPEN, OPEN, Verdict.INCONCLUSIVE),
        (INSIDE, OPEN, Verdict.INCONCLUSIVE),
        (OPEN, None, Verdict.INCONCLUSIVE),
    ],
)
def test_the_first_verdict_that_applies(gap, joint, expected):
    assert judged(gap, joint).verdict == expected
    assert judged(mirrored(gap), joint).verdict == expected
    assert judged(gap, mirrored(joint)).verdict == expected


def test_rows_needed_are_those_of_the_band_that_needs_most():
    # κ·se alone may be equal up to rounding, and rounding must not decide.
    wide = [Band(0.01, -0.01, 0.03, 0.02 * (1 + tiny), se) for tiny, se in [(1e-15, 0.002), (0.0, 0.01)]]
    needed = {str(judged(*pair).reason) for pair in (wide, wide[::-1])}
    assert needed == {str(judged(wide[1]).reason)} != {str(judged(wide[0]).reason)}


def test_the_ends_of_a_band_decide():
    assert judged(band(0.005, 0.02)).verdict == Verdict.SIZE_UNCLEAR  # at least what counts is not yet beyond it
    assert judged(band(np.nextafter(0.005, 1), 0.02)).verdict == Verdict.POTENTIAL_PROXY
    assert judged(band(-0.005, 0.005)).verdict == Verdict.NO_MATERIAL_CONTRIBUTION
    assert judged(band(-0.005, np.nextafter(0.005, 1))).verdict == Verdict.INCONCLUSIVE
    assert judged(band(0.0, 0.01)).verdict == Verdict.INCONCLUSIVE
    assert judged(band(np.nextafter(0.0, 1), 0.01)).verdict == Verdict.SIZE_UNCLEAR


def test_a_band_without_width_is_judged_by_its_value():
    assert judged(Band(0.006, 0.006, 0.006, 0.0)).verdict == Verdict.POTENTIAL_PROXY
    assert judged(Band(-0.004, -0.004, -0.004, 0.0)).verdict == Verdict.NO_MATERIAL_CONTRIBUTION
    assert judged(Band(0.0, 0.0, 0.0, 0.0), Band(0.01, 0.01, 0.01, 0.0)).verdict == Verdict.IN_COMBINATION


@given(st.tuples(*(st.floats(-0.03, 0.03) for _ in range(4))))
def test_evidence_is_never_said_of_what_may_be_immaterial_nor_its_absence_of_what_may_be_material(ends):
    gap, joint = band(*sorted(ends[:2])), band(*sorted(ends[2:]))
    found = judged(gap, joint).verdict
    is_sure = [min(abs(one.low), abs(one.high)) > MATERIALITY and one.low * one.high > 0 for one in (gap, joint)]
    may_be = [max(abs(one.low), abs(one.high)) > MATERIALITY for one in (gap, joint)]
    assert (found == Verdict.POTENTIAL_PROXY) == is_sure[0]
    assert (found in EVIDENCE) == any(is_sure)
    assert (found == Verdict.NO_MATERIAL_CONTRIBUTION) == (not any(may_be))


def test_the_reason_of_a_verdict_names_the_points():
    assert reason_of(BEYOND) == reason_of(mirrored(BEYOND)) == ("alone", {"least": "0.60 points", "way": ""})
    code, values = reason_of(NOTHING, band(0.012, 0.02), "income")
    assert (code, values["least"], values["partner"]) == ("beyond the others, with a partner", "1.2 points", "income")
    assert reason_of(NOTHING, BEYOND) == ("beyond the others", {"least": "0.60 points", "way": ""})
    assert reason_of(NOTHING, NOTHING) == ("within the threshold", {"threshold": "0.50 points"})
    code, values = reason_of(mirrored(ACROSS))
    assert (code, values["span"], values["threshold"]) == ("across the threshold", "0.10 to 0.90 points", "0.50")
    assert reason_of(band(0.00001, 0.009))[1]["span"] == "< 0.01 to 0.90 points"


def reason_of(*bands_and_partner):
    """Return the code and the values of the reason of a verdict."""
    reason = judged(*bands_and_partner).reason
    return reason.code, reason.values


def rows_needed(reason):
    return reason.values["rows"].values["rows"]


@pytest.mark.parametrize(
    ("gap", "joint", "expected"),
    [
        (band(-0.008, 0.008), None, 60_000),  # 10,000 · ((0.8 + 1.28 · 0.32)/0.5)² = 58,500
        (band(-0.001, 0.015), None, 60_000),
        (band(-0.008, 0.008), band(-0.009, 0.007), 60_000),
        # the wider band is settled already: it is the other that needs more rows
        (band(-0.0049, 0.0049), band(-0.0012, 0.0082), 20_000),
    ],
)
def test_inconclusive_says_how_many_rows_are_needed(gap, joint, expected):
    found = judged(gap, joint)
    assert found.verdict == Verdict.INCONCLUSIVE
    assert (found.reason.code, found.reason.values["threshold"]) == ("inconclusive", "0.50 points")
    assert rows_needed(found.reason) == expected


def test_so_many_rows_settle_it_in_four_of_five_samples_whatever_was_estimated():
    """Also where the truth is twice the threshold; a truth at the threshold is detected, if not as material."""
    rng = np.random.default_rng(0)
    se, factor, said = 0.003, 2.5, set()
    for value in (0.0, 0.004, -0.006):
        said.add(rows_needed(judged(*bands([value], np.array([se]), factor)).reason))
    (rows,) = said
    later = se * np.sqrt(ROWS / rows)
    for truth, settled in (
        (0.0, {Verdict.NO_MATERIAL_CONTRIBUTION}),
        (0.01, {Verdict.POTENTIAL_PROXY}),
        (0.005, {Verdict.POTENTIAL_PROXY, Verdict.SIZE_UNCLEAR, Verdict.NO_MATERIAL_CONTRIBUTION}),
    ):
        drawn = bands((truth + later * rng.standard_normal(2_000)).tolist(), np.full(2_000, later), factor)
        assert np.mean([judged(one).verdict in settled for one in drawn]) > 0.75


def test_no_number_where_the_truth_may_lie_between_0_and_the_threshold():
    assert judged(band(-0.0005, 0.0055)).reason.values["rows"].code == "twice the rows"


def test_bands_are_values_and_factors_of_their_errors():
    one, other = bands([0.1, -0.2], np.array([0.01, 0.0]), 2.5)
    assert one == pytest.approx((0.1, 0.075, 0.125, 0.025, 0.01))
    assert other == (-0.2, -0.2, -0.2, 0.0, 0.0)


# One band for many numbers.


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.99])
def test_one_number_has_the_ordinary_quantile(confidence):
    assert simultaneous_factor(np.array([[0.04]]), confidence, 0) == quantile(confidence)


@pytest.mark.parametrize("count", [2, 5, 20])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_independent_numbers_have_that_of_sidak(count, confidence):
    errors = np.diag(np.linspace(0.001, 3.0, count) ** 2)
    assert simultaneous_factor(errors, confidence, 0) == pytest.approx(quantile(confidence ** (1 / count)), abs=0.02)


def test_numbers_that_go_together_need_less_and_equal_ones_nothing_more():
    equal = np.outer([1.0, 2.0, -0.5], [1.0, 2.0, -0.5])
    assert simultaneous_factor(equal, 0.95, 0) == pytest.approx(quantile(0.95), abs=0.02)
    half = 0.5 * np.eye(3) + 0.5
    assert quantile(0.95) < simultaneous_factor(half, 0.95, 0) < simultaneous_factor(np.eye(3), 0.95, 0) - 0.02


def test_numbers_without_error_have_no_part_in_it():
    known = np.zeros((4, 4))
    known[1, 1] = 0.04
    assert simultaneous_factor(known, 0.95, 0) == quantile(0.95)
    known[3, 3] = 0.01
    assert simultaneous_factor(known, 0.95, 0) == simultaneous_factor(np.diag([0.04, 0.01]), 0.95, 0)
    assert simultaneous_factor(np.zeros((2, 2)), 0.95, 0) == quantile(0.95)


def test_the_band_holds_all_numbers_at_once_as_often_as_asked():
    rng = np.random.default_rng(1)
    mix = rng.normal(size=(6, 3))
    errors = mix @ mix.T + 0.1 * np.eye(6)
    factor = simultaneous_factor(errors, 0.95, 0)
    draws = rng.multivariate_normal(np.zeros(6), errors, 20_000) / np.sqrt(np.diag(errors))
    assert np.mean(np.abs(draws).max(axis=1) < factor) == pytest.approx(0.95, abs=0.006)
    assert simultaneous_factor(errors, 0.95, 0) == factor


# What an audit says of what cannot be judged.


def people(size=600):
    rng = np.random.default_rng(0)
    audited = rng.random(size) < 0.4
    used = (rng.random(size) < np.where(audited, 0.7, 0.3)).astype(int)
    return pl.DataFrame(
        {
            "group": np.where(audited, "a", "b"),
            "score": np.clip(0.3 + 0.4 * used + rng.uniform(-0.05, 0.05, size), 0, 1),
            "used": used,
            "noise": rng.integers(0, 3, size),
            "copy": np.where(audited, "x", "y"),
            "key": [f"person {number}" for number in rng.permutation(size)],
            "places": [f"place {number}" for number in rng.integers(0, 200, size)],
            "constant": np.ones(size),
        }
    )


def verdicts_of(**options):
    found = tl.audit(people(), "group", scores="score", reference="b", **options)["a"].contributions_full
    return {row["feature"]: (row["verdict"], row["reason"]) for row in found.iter_rows(named=True)}


def test_what_cannot_be_judged_says_why():
    found = verdicts_of()
    assert found["used"][0] == Verdict.POTENTIAL_PROXY
    assert found["copy"][0] == Verdict.IDENTIFIES_GROUP
    assert found["key"][0] == Verdict.NOT_ASSESSED
    assert code_of(found["key"][1]) == "looks like an identifier"
    assert found["places"][0] == Verdict.NOT_ASSESSED
    assert code_of(found["places"][1]) in ("too sparse", "too many values together")
    assert found["constant"][0] == Verdict.NO_MATERIAL_CONTRIBUTION
    assert found["noise"][0] in (Verdict.NO_MATERIAL_CONTRIBUTION, Verdict.INCONCLUSIVE)


def test_plug_in_values_are_not_judged():
    found = verdicts_of(folds=None, features=["used", "noise", "copy"])
    assert found["copy"][0] == Verdict.IDENTIFIES_GROUP
    for name in ("used", "noise"):
        assert found[name][0] == Verdict.NOT_ASSESSED
        assert code_of(found[name][1]) == "plug-in"


def test_more_than_ten_times_the_rows_are_no_advice():
    sizes = [0.98, 1.01, 9.7, 10.1]
    few, many, near, far = (
        bands([0.0], np.array([m * 0.005 / (2.5 + 1.28)]), 2.5)[0] for m in [*(3.16 * s for s in sizes[:2]), *sizes[2:]]
    )
    needed = [judged(one).reason.values["rows"] for one in (few, many, near, far)]
    needed.append(verdict(near, None, 0.0, ROWS).reason.values["rows"])
    assert [(note.code, note.values.get("rows")) for note in needed] == [
        ("more rows", 100_000),
        ("far more rows", 100_000),
        ("far more rows", 900_000),
        ("too many rows", None),
        ("too many rows", None),
    ]


def test_reasons_say_which_way_a_feature_goes():
    def way(value):
        return "; up" if value > 0 else "; down"

    for gap, joint in ((BEYOND, NOTHING), (NOTHING, BEYOND), (ACROSS, NOTHING)):
        told = [
            verdict(*(sign(one) for one in (gap, joint)), MATERIALITY, ROWS, way=way).reason
            for sign in (Band._make, mirrored)
        ]
        assert ["; up" in told[0], "; down" in told[1]] == [True, True]


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (0.006, 0.02, Materiality.MATERIAL),
        (-0.02, -0.006, Materiality.MATERIAL),
        (-0.004, 0.005, Materiality.NOT_MATERIAL),
        (0.001, 0.02, Materiality.DETECTED),
        (-0.02, -0.001, Materiality.DETECTED),
        (-0.001, 0.02, Materiality.INCONCLUSIVE),
        (None, None, None),
    ],
)
def test_an_interval_is_judged_against_the_threshold_on_both_sides(low, high, status):
    assert materiality(low, high, 0.005) is status
    if low is not None:
        assert materiality(-high, -low, 0.005) is status  # swapping the groups changes nothing


def test_a_ratio_is_inconclusive_where_its_interval_includes_the_line():
    assert side_of(0.7, 0.6, 0.79, 0.8) == "below"
    assert side_of(0.9, 0.81, 1.0, 0.8) == "above"
    assert side_of(0.7, 0.6, 0.8, 0.8) == "inconclusive"
    assert (side_of(0.7, None, None, 0.8), side_of(0.9, None, None, 0.8)) == ("below", "above")


def test_the_level_of_several_tests_is_that_of_all_together():
    assert is_significant(0.049, 0.95, 1)
    assert not is_significant(0.049, 0.95, 2)
    assert is_significant(1 - 0.95**0.5 - 1e-9, 0.95, 2)
