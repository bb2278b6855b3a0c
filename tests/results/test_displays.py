"""Estimates print as a person would write them."""

import copy
import pickle

import pytest

import tiltlens as tl
from tiltlens._documents.quantities import format_of, quantity
from tiltlens._estimators.estimate import Estimate
from tiltlens._formats import Display
from tiltlens._results.comparison import ESTIMATES
from tiltlens._rows.wording import MEASURES, UNITS

HIRED = {"sex": ["women", "men"] * 50, "hired": [0, 1, 1, 1, 0, 0, 1, 1, 0, 1] * 10, "good": [1, 0, 1, 1, 0] * 20}
HIRED["pay"] = [float(100 * (row % 7)) for row in range(100)]
KINDS = {
    "decisions": {"scores": "hired", "outcome": "good"},
    "amounts": {"scores": "pay", "score_type": "amount"},
}


@pytest.fixture(scope="module", params=KINDS)
def c(request):
    return tl.audit(HIRED, "sex", reference="men", features=[], **KINDS[request.param])["women"]


def test_a_gap_prints_with_unit_and_confidence():
    audit = tl.audit(HIRED, "sex", reference="men", scores="hired", features=[], confidence=0.9)["women"]
    assert str(audit.gap) == f"{audit.gap}" == "−40.0 points (90% CI −53.1 to −24.2)"
    assert str(audit.impact_ratio) == "0.50 (90% CI 0.37 to 0.68)"
    assert str(audit.rates.audited) == "40.0% (90% CI 29.4% to 51.6%)"


def test_units_and_formats_are_those_of_the_quantities(c):
    measure = MEASURES[c.scale.score_type, c.scale.metric]
    for name in ESTIMATES:
        if (estimate := c.estimate(name)) is not None:
            written, display = format_of(quantity(name).scale, measure), estimate._display
            in_points = written.unit == "points" and measure is not UNITS
            assert (display.unit, display.confidence) == (written.unit, 0.95), name
            assert display.write is (None if in_points else written.value), name


@pytest.mark.parametrize(("unit", "written"), [("days", "−2.00 days (95% CI"), ("€", "−€2.00 (95% CI −€")])
def test_an_amount_prints_in_the_unit_that_was_given(unit, written, tmp_path):
    audit = tl.audit(HIRED, "sex", reference="men", features=[], wording={"unit": unit}, **KINDS["amounts"])
    audit.to_json(tmp_path / "audit.json")
    for c in (audit["women"], tl.read_audit(tmp_path / "audit.json")["women"]):
        assert str(c.gap).startswith(written)


def test_printing_changes_no_number():
    plain = Estimate(-0.129, -0.199, -0.06)
    shown = plain.displayed(Display("points", None, 0.95))
    assert str(shown) == "−12.9 points (95% CI −19.9 to −6.0)"
    assert (shown, hash(shown), repr(shown), shown.to_dict()) == (plain, hash(plain), repr(plain), plain.to_dict())
    assert (f"{shown:+.2f}", shown + 1, shown < 0) == ("-0.13", 0.871, True)
    for other in (copy.deepcopy(shown), pickle.loads(pickle.dumps(shown))):
        assert (other, str(other)) == (shown, str(shown))


def test_small_gaps_have_two_decimals_and_ranges_no_value():
    assert (
        str(Estimate(0.004, -0.001, 0.009).displayed(Display("points", None, 0.95)))
        == "0.40 points (95% CI −0.10 to 0.90)"
    )
    assert str(Estimate(0.1, 0.05, 0.15).displayed(Display("points", None, is_range=True))) == "5.0 to 15.0 points"
    assert str(Estimate(0.1)) == "0.1000"


def test_a_change_and_a_saved_audit_print_the_same_way(c, tmp_path):
    audit = tl.audit(HIRED, "sex", reference="men", scores="hired", features=[])
    audit.to_json(tmp_path / "audit.json")
    assert str(tl.read_audit(tmp_path / "audit.json")["women"].gap) == str(audit["women"].gap)
    changes = tl.compare(audit, audit)["women"].changes
    assert str(changes["gap"]) == str(changes["audited_rate"]) == "0 points (95% CI 0 to 0)"
