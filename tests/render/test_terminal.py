"""The terminal says what the summary says, and marks verdicts by what they are."""

import io
import re

import pytest
from rich.console import Console
from tests.render.summaries import cross_fitted_audit, decisions_audit, demo, many, plug_in_audit

from tiltlens.documents.verdict_texts import EVIDENCE, VERDICTS
from tiltlens.render.demo_text import print_demo
from tiltlens.render.terminal import print_audit


def printed(audit, show=print_audit, width=160, **options):
    console = Console(file=io.StringIO(), width=width, **options)
    show(audit, console)
    return console.file.getvalue()


def only(audit):
    return next(iter(audit["comparisons"].values()))


def test_directions_are_those_of_evidence_whatever_it_is_called():
    for text, verdict in VERDICTS.items():
        audit = cross_fitted_audit()
        rows = only(audit)["proxies"]
        for row in rows:
            row |= {"verdict": text, "direction": f"towards {row['feature']}"}
        assert (f". towards {rows[0]['feature']}." in printed(audit)) == (verdict.kind == EVIDENCE)


def test_a_verdict_that_only_sounds_like_evidence_is_not_marked():
    audit = cross_fitted_audit()
    c = only(audit)
    c["proxies"] = [c["proxies"][0] | {"verdict": "no potential proxy", "direction": "nowhere"}]
    shown = printed(audit, force_terminal=True, color_system="standard")
    assert "no potential proxy" in shown
    assert "\x1b[1mno potential proxy" not in shown
    assert "nowhere" not in printed(audit)


@pytest.mark.parametrize("width", [80, 110])
def test_nothing_is_cut_off_in_the_table_of_features(width):
    audit = cross_fitted_audit()
    rows = only(audit)["proxies"]
    for row, verdict in zip(rows, sorted(VERDICTS, key=len)[-len(rows) :], strict=True):
        row |= {"verdict": verdict, "feature": f"{row['feature']} with a name of many words"}
    shown = printed(audit, width=width)
    assert "…" not in shown
    lines = [line for line in shown.splitlines() if "│" in line]
    cells = " ".join(line.rsplit("│", 1)[1].strip() for line in lines)
    for row in rows:
        assert row["verdict"] in cells
        for name in ("gap", "joint", "gap_shapley"):
            assert f"[{100 * row[f'{name}_low']:+z.2f}, {100 * row[f'{name}_high']:+z.2f}]" in shown
        assert f"{100 * row['gap_shapley']:+z.2f}" in shown
    assert max(len(line) for line in shown.splitlines()) <= width


def test_long_numbers_leave_room_for_names():
    audit = cross_fitted_audit()
    c = only(audit)
    c["channel"] = audit["channel"] = "amounts"
    for row in c["proxies"]:
        row |= {f"{name}{end}": -0.01234 for name in ("gap", "joint", "gap_shapley") for end in ("", "_low", "_high")}
        row |= {"verdict": "no material contribution"}
    names = [line.split("│")[0].strip() for line in printed(audit, width=100).splitlines() if "│" in line]
    assert {row["feature"] for row in c["proxies"]} <= set(names)


def test_a_name_stays_whole_where_a_verdict_can_give_way():
    audit = cross_fitted_audit()
    rows = only(audit)["proxies"]
    for number, row in enumerate(rows):
        row |= {"feature": f"EDUCATION_{number}", "verdict": "no material contribution"}
    lines = [line for line in printed(audit, width=100).splitlines() if line.startswith("EDUCATION_")]
    assert [line.split("│")[0].strip() for line in lines] == [row["feature"] for row in rows]
    assert all(line.count("[") == 3 for line in lines)  # number and band on one line still
    assert all(line.endswith("no material") for line in map(str.rstrip, lines))


def test_reasons_and_notes_stand_below_and_equal_ones_together():
    audit = cross_fitted_audit()
    rows = only(audit)["proxies"]
    rows[0] |= {"notes": "cut into 10 bins"}
    for row in rows[3:]:
        row |= {"verdict": "inconclusive", "reason": "about 9,000 rows needed"}
    shown = printed(audit)
    assert "(cut into 10 bins)" in shown
    assert "• Sex, LengthOfStay – inconclusive: about 9,000 rows needed." in shown
    for row in rows[:3]:
        assert f"• {row['feature']} – {row['verdict']}: {row['reason']}. {row['direction']}." in shown
    assert "hold for all features at once (95 %)" in shown
    unmeasured = many() | {"proxies": [row | {"use": None} for row in many()["proxies"]]}
    assert "and 192 more – inconclusive: " in printed({**audit, "comparisons": {"x": unmeasured}})


def test_plug_in_values_have_no_bands_and_say_so():
    shown = printed(plug_in_audit())
    assert "hold for all features at once" not in shown
    assert "[" not in shown.split("Proxy evidence, in points")[1]
    assert "plug-in values have no intervals" in shown


def test_four_fifths_are_of_decisions():
    scores, decisions = printed(cross_fitted_audit()), printed(decisions_audit())
    assert "ratio of mean scores" in scores
    assert "0.80" not in scores
    assert "ratio of mean scores" not in decisions
    assert "lower ÷ higher rate" in decisions
    assert "impact ratio" not in decisions  # a published rule's name for another number
    said = "The lower rate of decisions is 0.81 of the higher (95 % interval 0.80 to 0.83): cannot be told from 0.80."
    assert said in decisions
    audit = decisions_audit()
    only(audit)["adverse_impact_ratio"] = {"value": 0.5, "low": 0.4, "high": 0.6}
    assert "below 0.80" in printed(audit)
    only(audit)["adverse_impact_ratio"] = {"value": 0.9, "low": None, "high": None}
    assert "not below 0.80; no interval" in printed(audit)


def test_people_are_whole():
    line = next(line for line in printed(cross_fitted_audit()).splitlines() if line.startswith("shortfall"))
    assert re.search(r"\b334 │ +301 to 367\b", line)


def test_the_demo_says_which_numbers_are_which():
    for width in (80, 110):
        shown = printed(demo(), print_demo, width)
        assert max(len(line) for line in shown.splitlines()) <= width
        assert "−" not in shown
        for part in ("the paper's way", "cross-fitted", "Proxy evidence, cross-fitted", "-0.62449"):
            assert part in shown
        assert "rarer" not in shown


def test_a_group_that_says_nothing_by_itself_is_printed_with_its_column():
    audit = cross_fitted_audit()
    audit |= {
        "group": "afam",
        "reference": "no",
        "comparisons": {"yes": only(audit) | {"audited": "yes", "reference": "no"}},
    }
    assert re.search(r"^afam = yes \(3,175, audited\) against afam = no", printed(audit), re.MULTILINE)
