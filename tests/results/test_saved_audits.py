"""A saved audit, read again, says what the audit said; what needs rows, and what was altered, is refused."""

import copy
import json
import pickle
from functools import cache

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.special import expit

import tiltlens as tl
from tiltlens._gates import gate
from tiltlens._render.page import page
from tiltlens._results.comparison import ESTIMATES
from tiltlens.errors import DataError, NeedsRowsError


@cache
def table(rows=150, seed=0):
    rng = np.random.default_rng(seed)
    women = rng.random(rows) < 0.45
    income, city = rng.normal(size=rows) - 0.7 * women, rng.choice(["north", "south"], rows)
    score = np.round(expit(income), 4)
    chance = np.where(women, 0.8, 0.1)
    return pl.DataFrame(
        {"sex": np.where(women, "women", "men"), "income": income, "city": city, "score": score}
        | {"repaid": (rng.random(rows) < score).astype(int), "month": rng.choice(["2024-01", "2024-02"], rows)}
        | {"p_women": chance, "p_men": 1 - chance, "premium": np.round(100 + 20 * income, 1)}
        | {f"class_{k}": part for k, part in enumerate(rng.dirichlet([1, 2, 3], rows).T)}
    )


FEATURES = {"features": ["income", "city"]}
KINDS = {
    "scores": {"group": "sex", "scores": "score", "exempt": "city"},
    "decisions": {"group": "sex", "scores": "score", "threshold": 0.5, "outcome": "repaid", "periods": "month"},
    "criterion": {"group": "sex", "scores": "score", "outcome": "repaid", "metric": "fpr", "folds": None},
    "amounts": {"group": "sex", "scores": "premium", "score_type": "amount", "favourable": "low", "folds": None},
    "classes": {"group": "sex", "scores": ["class_0", "class_1", "class_2"], "favourable": "class_2", "folds": None},
    "probabilities": {"group": {"women": "p_women", "men": "p_men"}, "known_groups": "sex", "scores": "score"},
    "outputs alone": {"group": "sex", "scores": "score", "features": []},
}


@cache
def audited(kind):
    return tl.audit(table(), **FEATURES | {"reference": "men"} | KINDS[kind])


@pytest.fixture
def saved(tmp_path):
    def made(kind):
        audited(kind).to_json(tmp_path / "audit.json")
        return tl.read_audit(tmp_path / "audit.json")

    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_audit_says_what_the_audit_said(kind, saved, tmp_path):
    before, after = audited(kind), saved(kind)
    assert isinstance(after, tl.Audit)
    assert (repr(after), str(after)) == (repr(before), str(before))
    assert (after.settings, after.provenance) == (before.settings, before.provenance)
    old, new = before["women"], after["women"]
    assert (repr(new), new.decision_table) == (repr(old), old.decision_table)
    for name in ESTIMATES:
        assert new.estimate(name) == old.estimate(name), name
    assert_frame_equal(new.contributions_full, old.contributions_full)
    assert_frame_equal(new.outputs.decile_shares, old.outputs.decile_shares)
    assert_frame_equal(new.correction.shares_along_tradeoff(), old.correction.shares_along_tradeoff())
    assert (new.outputs.means, new.rates) == (old.outputs.means, old.rates)
    assert (new.checks.notes, new.gap_parts.exempt) == (old.checks.notes, old.gap_parts.exempt)
    after.to_json(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "audit.json").read_bytes()


def test_parts_of_a_saved_audit_are_what_they_were(saved):
    old, new = audited("decisions")["women"], saved("decisions")["women"]
    assert new.error_rates.fpr == old.error_rates.fpr
    assert_frame_equal(new.error_rates.by_decile, old.error_rates.by_decile)
    assert_frame_equal(saved("decisions").periods, audited("decisions").periods)
    assert (new.periods.equal_gaps, new.gap_test) == (old.periods.equal_gaps, old.gap_test)
    soft, again = audited("probabilities")["women"].unobserved_group, saved("probabilities")["women"].unobserved_group
    assert (again.bracket, again.calibration, again.signs) == (soft.bracket, soft.calibration, soft.signs)
    assert "women" in page(saved("outputs alone"))
    for kind, point in (("decisions", (0.3, 1.0)), ("classes", (np.array([0.3]), np.array([[0.2, 0.3, 0.5]])))):
        f, g = (audit["women"].correction.function for audit in (saved(kind), audited(kind)))
        assert f(*point) == pytest.approx(g(*point), rel=1e-15)
    assert new.correction.function.n_m == pytest.approx(old.correction.function.n_m, rel=1e-15)
    assert_frame_equal(new.plot("profile", "income").table, old.plot("profile", "income").table)


def test_gates_fire_of_a_saved_audit_as_of_the_audit(saved):
    for text in ("gap<-0.01", "potential_proxies>0", "adverse_impact_ratio.high<0.9", "fpr_difference<-0.5"):
        assert gate(text).judge(saved("decisions")) == gate(text).judge(audited("decisions"))


def test_saved_audits_are_compared_as_independent_ones(tmp_path):
    old, new = audited("scores"), tl.audit(table(120, 1), **FEATURES | {"reference": "men"} | KINDS["scores"])
    for name, one in (("old", old), ("new", new)):
        one.to_json(tmp_path / name)
    expected = tl.compare(old, new)["women"]
    for pair in ((tl.read_audit(tmp_path / "old"), new), (old, tl.read_audit(tmp_path / "new"))):
        found = tl.compare(*pair)["women"]
        assert found.changes["gap"] == expected.changes["gap"]
        assert_frame_equal(found.features, expected.features)
    with pytest.raises(DataError, match="one is saved"):
        tl.compare(tl.read_audit(tmp_path / "old"), old)


@pytest.mark.parametrize("asked", ["path", "project", "repair", "alternatives", "reweigh", "profile", "distribution"])
def test_what_needs_rows_says_so_and_what_to_do(refused, asked, saved):
    c = saved("scores")["women"]
    arguments = {"path": [[(0, 1, 0, 1)]], "profile": ["income"], "distribution": ["income"]}
    with refused(NeedsRowsError, f"`{asked}`"):
        getattr(c if hasattr(c, asked) else c.correction, asked)(*arguments.get(asked, ()))


def test_other_questions_of_a_saved_audit(refused, saved):
    c = saved("scores")["women"]
    for ask in (
        lambda: c.correction.shares_along_tradeoff(5),
        lambda: c.correction.prototypes(suppress=False),
        lambda: c.correction.function.p,
    ):
        with refused(NeedsRowsError, "requires an audit"):
            ask()
    for one in (copy.deepcopy(c), pickle.loads(pickle.dumps(c))):
        assert one.gap == c.gap


def test_the_demo_can_be_read_again(tmp_path):
    from tests.command import invoked

    assert invoked("demo", "--json", "demo.json", cwd=tmp_path).returncode == 0
    c = tl.read_audit(tmp_path / "demo.json")["African-American"]
    assert c.correction.descent_rate == pytest.approx(-0.624, abs=5e-4)  # the paper's


def altered(change, path):
    summary = json.loads(json.dumps(audited("decisions").to_dict()))
    change(summary)
    path.write_text(json.dumps(summary))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: s.update(schema="tiltlens/audit/2"),
            r"version 2 of the schema 'tiltlens/audit'; tiltlens reads version 3\.\nHint: audit the data again",
        ),
        (lambda s: s.update(schema="tiltlens/change/1"), "its schema is 'tiltlens/change/1', not 'tiltlens/audit/3'"),
        (lambda s: s.pop("settings"), "settings: missing"),
        (lambda s: s["comparisons"]["women"]["checks"].pop("balance"), "women.checks.balance: missing"),
        (lambda s: s.update(comparisons={}), "comparisons: expected at least one"),
        (
            lambda s: s["comparisons"]["women"]["gap"].update(value="low"),
            "gap.value: expected a number, got text",
        ),
        (lambda s: s["comparisons"]["women"]["gap"].update(value=0.3), "gap: 0.3 lies outside of its interval"),
        (lambda s: s["comparisons"]["women"]["gap"].update(value=-0.2), "gap: -0.2 is not the difference"),
        (
            lambda s: s["comparisons"]["women"]["contributions"][0].update(beyond_others_low=0.5),
            "lies outside of its interval, 0.5",
        ),
        (
            lambda s: s["comparisons"]["women"]["checks"]["balance"].update(is_adequate=None),
            "is_adequate: expected true or false",
        ),
        (
            lambda s: s["comparisons"].update(girls=s["comparisons"].pop("women")),
            "girls: about other groups",
        ),
        (
            lambda s: s["comparisons"]["women"]["checks"]["balance"].update(is_adequate=3),
            "is_adequate: expected true or false",
        ),
        (lambda s: s["comparisons"]["women"]["bins"].update(score="x"), "women.bins.score: expected a list, got text"),
        (
            lambda s: s["comparisons"]["women"]["correction"]["numbers"].pop("intercept"),
            "women.correction.numbers.intercept: missing",
        ),
        (lambda s: s["settings"].update(confidence=3), "`confidence` must"),
    ],
)
def test_an_altered_file_is_refused_with_a_sentence(change, message, tmp_path):
    with pytest.raises(DataError, match=message):
        tl.read_audit(altered(change, tmp_path / "audit.json"))


@pytest.mark.parametrize("text", ["", "[]", "{", '"text"', '{"schema": NaN}', "[" * 100_000, "\x00"])
def test_what_is_no_audit_is_refused(text, tmp_path):
    (tmp_path / "audit.json").write_text(text)
    with pytest.raises(DataError, match="is not a saved audit"):
        tl.read_audit(tmp_path / "audit.json")
    with pytest.raises(DataError, match="Cannot read "):
        tl.read_audit(tmp_path / "none.json")
