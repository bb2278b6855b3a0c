"""The plain words never say more than the numbers, and never less than what was asked."""

import copy
import re
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from tests.people import audited, people
from tests.render.summaries import (
    amounts_audit,
    cross_fitted,
    cross_fitted_audit,
    decisions_audit,
    of_summaries,
    plug_in,
    plug_in_audit,
    typed,
)

from tiltlens import _formats as formats
from tiltlens._documents import first_screen as first_screens
from tiltlens._documents import headline as headlines
from tiltlens._documents import sentences
from tiltlens._documents.document import OPEN, VERDICTS
from tiltlens._documents.glossary import glossary
from tiltlens._documents.tables import contribution_table, shapley_words
from tiltlens._estimators.verdicts import Verdict
from tiltlens._notes import USE_OF_GROUP
from tiltlens._pipeline import audit
from tiltlens._render.page import page
from tiltlens.errors import DataError
from tiltlens.figures._marks import dial_place


def reading_summaries(module):
    """Return the functions of a module, which take results, as functions of summaries."""
    return SimpleNamespace(
        **{name: of_summaries(part) if callable(part) else part for name, part in vars(module).items()}
    )


words, headline, first_screen = map(reading_summaries, (sentences, headlines, first_screens))
page, dial_place, contribution_table = map(of_summaries, (page, dial_place, contribution_table))
shapley_words = of_summaries(shapley_words)


@pytest.fixture(scope="module")
def summary():
    return audited(people(), propensity="chance").to_dict()


def changed(summary, notes=None, balance=None, **fields):
    """Return the comparison of a summary with some fields and checks replaced."""
    c = copy.deepcopy(summary["comparisons"]["A"])
    checks = {name: part for name, part in (("notes", notes), ("balance", balance)) if part is not None}
    return c | fields | {"checks": c["checks"] | checks}


def estimate(value, low, high):
    return {"value": value, "low": low, "high": high}


GAPS = [(0.1, 0.05, 0.15), (-0.004, -0.006, -0.002), (0.001, -0.002, 0.003), (0.1, -0.05, 0.25), (0.0, None, None)]
ADJUSTED_GAPS = [(0.001, -0.002, 0.004), (0.002, 0.001, 0.003), (0.03, -0.08, 0.14), (0.03, 0.001, 0.14)]


@pytest.mark.parametrize("ends", GAPS, ids=str)
def test_the_gap_in_words(summary, ends, worded):
    worded(headline.gap_sentence(summary, changed(summary, gap=estimate(*ends))))


@pytest.mark.parametrize("ends", [*ADJUSTED_GAPS, (0.03, 0.02, 0.04), (-0.03, -0.04, -0.02), (0.0, 0.0, 0.0)], ids=str)
def test_the_unexplained_part_in_words_is_read_from_its_interval(summary, ends, worded):
    (line,) = headline.adjusted_gap(changed(summary, adjusted_gap=estimate(*ends), notes=[]))
    assert (headline.MAY_ACCOUNT in line) == (min(ends) * max(ends) > 0 and min(map(abs, ends)) > 0.005)
    worded(line)


def test_an_adjusted_gap_names_no_cause_where_the_checks_failed(summary, worded):
    """D6: a residual was worded as a fact about the model."""
    balance = summary["comparisons"]["A"]["checks"]["balance"] | {"is_adequate": False, "reasons": ["no overlap"]}
    left = estimate(0.03, 0.02, 0.04)
    said = " ".join(headline.adjusted_gap(changed(summary, adjusted_gap=left, balance=balance)))
    assert USE_OF_GROUP not in said
    worded(said)


def test_what_notes_say_changes_no_finding(summary):
    """Findings are made of numbers: a note may be reworded, translated or left out."""
    left = estimate(0.03, -0.08, 0.14)
    without, of_gap, other = (
        headline.headline(summary, changed(summary, adjusted_gap=left, notes=notes))
        for notes in ([], ["the listed features do not account for +3.00 points of the gap"], ["?"])
    )
    assert without == of_gap == other
    assert set(headline.adjusted_gap(changed(summary, adjusted_gap=left, notes=[]))) <= set(without)


def judged(summary, *given):
    """Return a comparison whose features have these verdicts."""
    rows = [
        row | {"verdict": one} for row, one in zip(summary["comparisons"]["A"]["contributions"], given, strict=False)
    ]
    return changed(summary, contributions=rows)


@pytest.mark.parametrize("verdict", [text for text, one in VERDICTS.items() if one.kind == OPEN])
def test_what_the_data_do_not_settle_is_never_no_evidence(summary, verdict, worded):
    said = headline.headline(summary, judged(summary, "no material contribution", verdict))[-1]
    assert said != headline.headline(summary, judged(summary, *["no material contribution"] * 4))[-1]
    worded(said)


def test_every_verdict_stands_in_the_table(summary):
    for verdict, meaning in VERDICTS.items():
        cells = [row[-1] for row in contribution_table(judged(summary, verdict)).rows]
        assert [(cell.text, cell.mark) for cell in cells] == [(verdict, meaning.kind)]


def test_verdicts_on_the_page_are_marked_and_explained_by_the_table(summary):
    text = page(summary)
    given = {row["verdict"] for row in summary["comparisons"]["A"]["contributions"]}
    assert words.verdicts_given(summary).keys() == given
    for verdict in VERDICTS:
        assert (f'<span class="verdict {VERDICTS[verdict].kind}">{verdict}</span>' in text) == (verdict in given)
        assert (f"<dt>“{verdict}”</dt>" in text) == (verdict in given)


def test_the_table_holds_every_verdict_of_the_library():
    theirs = set(Verdict)
    assert theirs
    assert theirs == VERDICTS.keys()
    assert len(VERDICTS) == 10
    copied = people().with_columns(copy=pl.col("group"))
    rows = audited(copied, features=["city", "copy"], propensity="chance").to_dict()["comparisons"]["A"][
        "contributions"
    ]
    assert {row["feature"]: row["verdict"] for row in rows}["copy"] == "identifies the group"
    assert {row["verdict"] for row in rows} <= VERDICTS.keys()


def test_an_impact_ratio_without_an_upper_limit_has_a_page(summary):
    ratio = {"value": 2.0, "low": 0.5, "high": None}
    text = page(summary | {"comparisons": {"A": changed(summary, impact_ratio=ratio)}})
    assert f"<small>{formats.interval(0.5, None, formats.ratio)}</small>" in text


def test_what_was_asked_is_said(worded):
    found = audited(
        people(1200, 1),
        folds=None,
        threshold=0.5,
        sample_weight="weight",
        where={"owner": True},
        features=["income", "city"],
        favourable="low",
    ).to_dict()
    said = words.audited_words(found)
    assert [part for part in ("owner = True", "0.5", "weight.", "decision 0") if part not in " ".join(said)] == []
    worded(said)
    assert found["provenance"]["question"]["where"] == {"owner": "True"}


def test_low_scores_that_a_person_wants_are_called_low(summary):
    assert words.favourable_words(summary | {"favourable": "0"}).startswith("a low score")
    assert words.favourable_words(summary | {"favourable": "1"}).startswith("a high score")


def test_the_dial_starts_at_the_audits_own_weights(summary):
    for inputs, outputs, place in ((1, 1, 10), (0, 1, 20), (1, 0, 0), (3, 1, 5)):
        c = copy.deepcopy(summary["comparisons"]["A"])
        c["correction"]["numbers"] |= {"input_weight": inputs, "output_weight": outputs}
        assert dial_place(c) == place
    dial = re.search(r'type="range"[^>]* value="(\d+)"', page(summary | {"comparisons": {"A": c}}))
    assert int(dial[1]) == place == 5


def test_sixty_groups_make_a_small_page_and_all_are_told_of():
    random = np.random.default_rng(0)
    rows = 60 * 40
    data = pl.DataFrame(
        {
            "group": [f"group {place % 60}" for place in range(rows)],
            "town": random.choice([f"town {j}" for j in range(3)], rows),
            "score": random.random(rows) / 5 + np.where(np.arange(rows) % 60 == 0, 0.2, 0.6),  # near gaps take long
        }
    )
    text = page(audit(data, group="group", reference="group 0", scores="score", folds=None).to_dict())
    assert len(text) < 3_000_000
    plain = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    for place in range(1, 60):
        assert f" group {place} than for group 0" in plain


def test_texts_that_cannot_be_written_are_the_users_mistake(refused):
    with refused(DataError, "`provenance`"):
        audited(people(), folds=None, provenance={"model": "caf\udce9"})


def test_nothing_is_printed_as_less_than_zero():
    assert (formats.number(-1e-6), formats.points(-1e-6)) == ("0.0000", "0.00")
    assert (formats.short_number(-1e-6), formats.percent(-1e-6)) == ("0.000", "0.0%")
    shares = [0.0, 1e-6, -1e-6, 0.0006, None]
    assert [*map(formats.brief_percent, shares)] == ["0%", "< 0.1%", "> −0.1%", "0.1%", "–"]
    assert formats.interval(-1e-6, 1e-6) == "0.0000 to 0.0000"


def test_intervals_in_words():
    assert formats.interval(None, None) == "–"
    assert formats.interval(0.5, None) == "0.5000 to no limit"
    assert formats.interval(-0.01, 0.02, formats.points) == "−1.00 to 2.00"
    assert formats.with_interval(0.3, 0.2, 0.4, formats.percent) == "30.0% (20.0% to 40.0%)"
    assert formats.with_interval(0.3, None, None) == "0.3000"
    ends = (-0.129, -0.199, -0.06)
    assert formats.with_interval(*ends, formats.points, "95% CI", "points") == "−12.90 points (95% CI −19.90 to −6.00)"
    assert (formats.size(-0.1052), formats.size(0.005)) == ("10.5", "0.50")
    assert (formats.whole(-1234.5), formats.whole(-0.2)) == ("−1,234", "0")
    assert (formats.interval_name(0.95), formats.interval_name(None)) == ("95% CI", "CI")


def test_numbers_have_one_minus_sign_and_names_keep_their_hyphens():
    assert formats.minus("x-3 in 2013-2014: -0.5 (-.2), 3 to -7") == "x-3 in 2013-2014: −0.5 (−.2), 3 to −7"
    assert formats.typed("−0.5") == "-0.5"


def plain(summary):
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", page(summary), flags=re.DOTALL)
    return re.sub(r"<[^>]+>", " ", text)


def test_the_page_has_no_hyphen_for_a_minus():
    c = changed({"comparisons": {"A": cross_fitted()}}, notes=["the parts add up to -1.20 points"])
    text = plain(cross_fitted_audit() | {"comparisons": {"A": c}})
    assert "−1.20 points" in text
    assert not re.search(r"(?<![\w.)-])-\d", text)


def test_the_answer_names_both_numbers_and_the_largest_contributions(worded):
    audit, c = cross_fitted_audit(), cross_fitted()
    gap, adjusted, largest, use = headline.headline(audit, c)
    assert "54.3% vs 43.8%, a gap of 10.5 points (95% CI 9.5 to 11.6)" in gap
    assert "0 points (95% CI 0 to 0.01)" in adjusted
    assert "PriorCounts, Age and ChargeDegree" in use
    assert "PriorCounts 5.5 points, Age 3.1 points and ChargeDegree 1.0 points" in largest
    c["gap_parts"]["shapley_remainder"] = 0.02
    worded([gap, adjusted, largest, use, headline.headline(audit, c)[-2]])


def test_a_contribution_is_told_with_the_number_its_verdict_was_read_from():
    """D2: one contribution of the headline was alone, the other beyond the others, and neither was marked."""
    audit, c = cross_fitted_audit(), cross_fitted()
    c["contributions"][1] |= {"alone": -0.03, "beyond_others": -0.03}
    c["contributions"][2] |= {"verdict": "potential proxy in combination", "beyond_others": 0.02}
    *_, with_it, against, _ = headline.headline(audit, c)
    assert "ChargeDegree 2.0 points" in with_it
    assert "Age" not in with_it
    assert "alone: Age −3.0 points" in against
    c["gap"] |= {"low": -0.1}
    either = headline.headline(decisions_audit(), c)[-1]
    assert either.index("PriorCounts") < either.index("Age") < either.index("ChargeDegree")


@pytest.mark.parametrize(
    ("verdict", "said"), [("inconclusive", "inconclusive"), ("no material contribution", "No feature contributes")]
)
def test_no_contribution_is_named_where_there_is_no_evidence(verdict, said):
    c = cross_fitted()
    for row in c["contributions"]:
        row["verdict"] = verdict
    assert said in headline.headline(cross_fitted_audit(), c)[-1]
    c["contributions"][0]["verdict"] = "identifies the group"
    assert "PriorCounts identifies the group." in headline.headline(cross_fitted_audit(), c)


def test_tiles_relate_decisions_alone_to_four_fifths():
    names = [tile.name for tile in first_screen.tiles(cross_fitted())]
    assert names == ["gap", "adjusted gap", "impact ratio"]
    assert "0.80" not in plain(cross_fitted_audit()).split("What was audited")[0].replace("0.80 to 0.83", "")
    audit = decisions_audit()
    c = next(iter(audit["comparisons"].values()))
    tile = next(tile for tile in first_screen.tiles(c) if tile.name == "adverse impact ratio")
    assert tile.value == "0.81"
    interval, side, rates = tile.note.split("; ")
    assert interval == "95% CI 0.80 to 0.83"
    assert side.startswith("inconclusive")
    assert "45.7% ÷ 56.2%" in rates


def test_people_affected_are_whole_and_of_either_sign():
    without = cross_fitted() | {"adjusted_gap": None}  # the shortfall takes the place of the adjusted gap
    tile = first_screen.tiles(without)[2]
    assert (tile.value, tile.note.split("; ")[0]) == ("334", "95% CI 301 to 367")
    c = without | {"shortfall": estimate(-12.4, -30.2, 5.1)}
    tile = first_screen.tiles(c)[2]
    assert tile.value == "−12"
    assert tile.note.startswith("95% CI −30 to 5; ")


def test_the_strip_warns_of_what_is_not_settled(worded):
    c = cross_fitted()
    doubts = list(first_screen.reliability(cross_fitted_audit(), c))
    assert [doubt.is_warning for doubt in doubts] == [False, False, False, True]
    worded(doubt.text for doubt in doubts)
    c["checks"]["balance"] |= {"is_adequate": False, "reasons": ["no overlap"]}
    c["gap_test"]["p_value"] = 0.4
    warned = [doubt.text for doubt in first_screen.reliability(cross_fitted_audit(), c) if doubt.is_warning]
    assert len(warned) == 3
    worded(warned)
    assert any("plug-in" in doubt.text for doubt in first_screen.reliability(plug_in_audit(), plug_in()))


def test_the_plain_part_leaves_the_words_of_statisticians_to_them():
    text = page(cross_fitted_audit())
    text = re.sub(r"<script.*?</script>|<style.*?</style>", "", text, flags=re.DOTALL)
    start = text.index('id="expert-0"')
    before, rest = text[:start], text[start:]
    after = rest[rest.index('<section id="origin"') : rest.index('id="words-for-statisticians"')]
    after = after[after.index('<section id="glossary"') :]  # settings have the names of arguments
    words_of_experts = r"λ|\bnats?\b|\bdial\b|correction|prototype|membership model|descent|divergence|rarer"
    assert not re.search(words_of_experts, before + after)
    assert re.search(words_of_experts, rest)
    assert "rarer" not in text
    assert "too little data" not in text


def test_a_page_does_not_claim_a_use_that_its_data_do_not_show(worded):
    """Boston loans: "the decisions use it" below "the data do not show whether the decisions use good_credit"."""
    audit = decisions_audit()
    assert doubts(audit) == []
    only_row = next(iter(audit["comparisons"].values()))["contributions"][0]
    only_row["verdict"] = "potential proxy or stand-in"
    assert len(doubts(audit)) >= 2  # of the headline and of the verdict
    worded(doubts(audit))


def doubts(audit):
    return sorted(set(re.findall(r"[^.>]* do not show whether [^.]*", plain(audit))))


def test_the_glossary_has_no_terms_that_the_report_does_not_use():
    names = set(glossary(typed(cross_fitted_audit())))
    assert {"impact ratio", "shortfall", "adjusted gap"} <= names
    unused = {"adverse impact ratio", "confidence sequence", "exempt (legitimate) factors", "false discovery rate"}
    assert not unused & names
    assert unused & set(glossary(typed(decisions_audit()))) == {"adverse impact ratio"}
    assert not unused & set(glossary(typed(amounts_audit())))


def test_shapley_contributions_leave_the_adjusted_gap_only_where_it_is_the_number_above(summary, worded):
    """Law school, by race: "minus the adjusted gap (−2.15)" below an adjusted gap of −0.02."""
    c = summary["comparisons"]["A"]
    parts = c["gap_parts"] | {"shapley_remainder": -0.0215}
    other = shapley_words(c | {"adjusted_gap": estimate(-0.0002, -0.03, 0.03), "gap_parts": parts})
    assert ("(−2.15)" in other, "2.1 points" in other) == (True, True)
    same = shapley_words(c | {"adjusted_gap": estimate(-0.0215, -0.04, 0.0), "gap_parts": parts})
    assert "−2.15" not in same
    worded([other, same])
