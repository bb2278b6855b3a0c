"""Planted truths, told apart: what is known of each table is what the audit says of it.

One draw of each is looked at in every run; twelve or twenty by `make test-slow`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from scipy.special import expit
from scipy.stats import binom

import tiltlens as tl

EVIDENCE = ("potential proxy", "potential proxy in combination")
FALSE_ALARM = 0.003  # largest probability that correct 95% intervals fail the test


def fewest_held(draws):
    """Return how many intervals must contain the truth: 16 of 20, 9 of 12.

    Simultaneous bands are wider, so a false alarm is rarer. Intervals of half the width contain the truth in 67% of
    draws: 20 draws detect this with probability 84%, 12 draws with 60%. Intervals whose centre is off by twice the
    half-width contain it in 2.5% of draws, which is always detected.
    """
    return binom.ppf(FALSE_ALARM, draws, 0.95)


class Draw(NamedTuple):
    """A table of planted features, who is audited, and the score."""

    table: dict[str, np.ndarray]
    audited: np.ndarray
    score: np.ndarray

    def comparison(self, seed=0):
        group = np.where(self.audited, "a", "r")
        data = pl.DataFrame(self.table)
        return tl.audit(data, group, reference="r", scores=np.clip(self.score, 0, 1), random_state=seed)["a"]


def rows_of(c):
    return {row["feature"]: row for row in c.contributions_full.to_dicts()}


def served_in_army(rng):
    """Half of the men and 3 of 5,000 women served, and only those who did get more: the whole gap of −20 points."""
    audited = np.arange(10_000) < 5_000
    army = np.where(audited, np.arange(10_000) < 3, rng.random(10_000) < 0.5)
    table = {"served_in_army": army, "age": rng.integers(18, 70, 10_000), "height": rng.normal(170, 8, 10_000)}
    return Draw(table, audited, 0.3 + 0.4 * army)


@cache
def town_of_places():
    """Return the shares of 400 places among the audited and the others, and the mean score of each place."""
    rng = np.random.default_rng(400)
    lean = rng.normal(0, 1, 400)
    chances = np.exp(np.outer([1, -1], lean))
    return chances / chances.sum(axis=1, keepdims=True), 0.5 - 0.1 * lean + 0.03 * rng.normal(size=400)


def gap_of_places():
    (audited, others), scores = town_of_places()
    return (audited - others) @ scores


def many_places(rng):
    """Of 400 places some are mostly of one group, and the score follows them alone."""
    shares, scores = town_of_places()
    audited = rng.random(20_000) < 0.5
    place = np.where(audited, *(rng.choice(400, 20_000, p=share) for share in shares))
    table = {"zip": np.char.add("Z", place.astype(str)), "noise": rng.normal(size=20_000)}
    return Draw(table, audited, scores[place])


def ignored_shadow(rng):
    """A feature that reveals the group and that nobody uses, beside one that is used and reveals nothing."""
    audited = rng.random(5_000) < 0.5
    shadow, used = rng.normal(size=5_000) + 1.5 * audited, rng.normal(size=5_000)
    return Draw({"shadow": shadow, "used": used}, audited, expit(-0.2 + 0.1 * used))


def exclusive_or(rng):
    """A pair whose product is 1 for 70 % of the audited and for half of the others; alone, neither says anything."""
    audited = rng.random(5_000) < 0.5
    left = rng.choice([-1, 1], 5_000)
    right = left * np.where(rng.random(5_000) < np.where(audited, 0.7, 0.5), 1, -1)
    return Draw({"left": left, "right": right, "idle": rng.normal(size=5_000)}, audited, expit(0.4 * left * right))


def wider_in_one_group(rng):
    """A feature that is wider among the audited, and a score that is odd in it: what it reveals, it does not drive."""
    audited = rng.random(5_000) < 0.5
    wide = rng.normal(size=5_000) * np.where(audited, 1.6, 1.0)
    return Draw({"wide": wide, "idle": rng.normal(size=5_000)}, audited, 0.5 + 0.2 * np.tanh(wide))


def one_number(rng):
    """One number determines the score, in a bend."""
    audited = rng.random(20_000) < 0.5
    x = rng.normal(size=20_000) + 0.5 * audited
    return Draw({"x": x, "idle": rng.normal(size=20_000)}, audited, expit(0.8 * x - 0.3 * np.abs(x)))


def direct_use(rng):
    """The score takes five points from the audited group, whatever their features."""
    audited = rng.random(5_000) < 0.5
    x, city = rng.normal(size=5_000) + 0.4 * audited, rng.integers(0, 5, 5_000)
    score = 0.5 + 0.1 * np.tanh(x) + 0.02 * city - 0.05 * audited + 0.05 * rng.normal(size=5_000)
    return Draw({"x": x, "city": np.char.add("c", city.astype(str))}, audited, score)


def army_carries_the_gap(c):
    row = rows_of(c)["served_in_army"]
    assert c.gap.value == pytest.approx(-0.2, abs=0.02)
    assert row["alone"] == pytest.approx(c.gap.value, abs=0.005)
    assert row["verdict"] == "potential proxy"
    assert all(rows_of(c)[name]["verdict"] not in EVIDENCE for name in ("age", "height"))


def places_carry_the_gap(c):
    row = rows_of(c)["zip"]
    assert c.gap.value == pytest.approx(gap_of_places(), abs=0.01)  # 5 standard errors
    assert row["alone"] == pytest.approx(c.gap.value, abs=1e-9)  # the place determines the score
    assert row["verdict"] == "potential proxy"
    assert rows_of(c)["noise"]["verdict"] not in EVIDENCE


def nothing_is_found(c):
    rows = rows_of(c)
    assert rows["shadow"]["reveals"] > 0.4
    assert rows["shadow"]["verdict"] == "no material contribution"


def pair_is_joint(c):
    rows = rows_of(c)
    for one, other in (("left", "right"), ("right", "left")):
        assert rows[one]["verdict"] == "potential proxy in combination"
        assert rows[one]["partner"] == other
        assert abs(rows[one]["alone"]) < 0.005
        assert rows[one]["beyond_others"] == pytest.approx(c.gap.value, abs=0.01)
    assert rows["idle"]["verdict"] not in EVIDENCE


def wide_is_never_evidence(c):
    assert rows_of(c)["wide"]["reveals"] > 0.2
    assert all(row["verdict"] not in EVIDENCE for row in rows_of(c).values())


def number_is_evidence(c):
    assert rows_of(c)["x"]["verdict"] == "potential proxy"
    assert abs(c.adjusted_gap.value) < 0.002


def use_is_found_out(c):
    assert c.adjusted_gap.value == pytest.approx(-0.05, abs=0.01)
    assert c.adjusted_gap.high < 0
    said = [note for note in c.checks.notes if "do not account for" in note]
    assert ["act together" in note for note in said] == [c.contributions_full.height > 2]


class Case(NamedTuple):
    """How a table is drawn, what the audit must say of it, and what its interval should hold most of the time."""

    draw: Callable
    always: Callable
    held: Callable
    draws: int = 20


def band_holds(name, truth=None):
    """Return a function that says whether the band of a feature holds the true gap, or else the gap of the rows."""
    return lambda c: rows_of(c)[name]["alone_low"] <= (truth or c.gap.value) <= rows_of(c)[name]["alone_high"]


CASES = {
    "served in the army": Case(
        served_in_army, army_carries_the_gap, band_holds("served_in_army", 0.4 * (0.0006 - 0.5))
    ),
    "400 places": Case(many_places, places_carry_the_gap, band_holds("zip", gap_of_places()), draws=12),
    "an ignored shadow": Case(
        ignored_shadow,
        nothing_is_found,
        lambda c: rows_of(c)["shadow"]["alone_low"] <= 0 <= rows_of(c)["shadow"]["alone_high"],
    ),
    "a pair": Case(
        exclusive_or,
        pair_is_joint,
        lambda c: rows_of(c)["left"]["beyond_others_low"] <= c.gap.value <= rows_of(c)["left"]["beyond_others_high"],
    ),
    "wider in one group": Case(
        wider_in_one_group,
        wide_is_never_evidence,
        lambda c: rows_of(c)["wide"]["alone_low"] <= 0 <= rows_of(c)["wide"]["alone_high"],
    ),
    "one number": Case(
        one_number, number_is_evidence, lambda c: band_holds("x")(c) and c.adjusted_gap.low <= 0 <= c.adjusted_gap.high
    ),
    "direct use": Case(direct_use, use_is_found_out, lambda c: c.adjusted_gap.low <= -0.05 <= c.adjusted_gap.high),
}


@pytest.mark.parametrize("name", [name for name in CASES if name != "400 places"])  # of which draw after draw tells
def test_a_planted_truth_is_told(name):
    case = CASES[name]
    c = case.draw(np.random.default_rng(0)).comparison()
    case.always(c)
    assert case.held(c)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_a_planted_truth_is_told_in_draw_after_draw(name):
    case, held = CASES[name], 0
    for seed in range(1, case.draws + 1):
        c = case.draw(np.random.default_rng(seed)).comparison(seed)
        case.always(c)
        held += case.held(c)
    assert held >= fewest_held(case.draws)
