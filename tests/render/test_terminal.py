"""The terminal prints documents whole at any width, the answer first."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from tests.render.summaries import (
    amounts_audit,
    cross_fitted_audit,
    decisions_audit,
    demo,
    many,
    outputs_only_audit,
    plug_in_audit,
    typed,
    with_outcome_audit,
)

from tiltlens import _formats as formats
from tiltlens._demo import Experiment, print_demo
from tiltlens._documents.audit_document import audit_document
from tiltlens._documents.document import EVIDENCE, HEADLINE, NAME, VERDICTS, Cell, Column, Details, Heading, Table
from tiltlens._documents.quantities import CORRECTION_KEYS, HEADLINE_KEYS, quantity
from tiltlens._notes import Note
from tiltlens._render.terminal import FittedTable, print_result
from tiltlens._rows.wording import POINTS

SNAPSHOTS = Path(__file__).parent / "snapshots"
AUDITS = (cross_fitted_audit, decisions_audit, plug_in_audit, outputs_only_audit, with_outcome_audit, amounts_audit)


def printed(audit, width=160, **options):
    console = Console(file=io.StringIO(), width=width, **options)
    print_result(typed(audit), console, has_fits=True)
    return console.file.getvalue()


def only(audit):
    return next(iter(audit["comparisons"].values()))


def stripped(text):
    return "\n".join(map(str.rstrip, text.splitlines())) + "\n"


def snapshot(make):
    return SNAPSHOTS / f"{make.__name__.removesuffix('_audit')}.txt"


@pytest.mark.parametrize("make", AUDITS)
def test_an_audit_is_printed_as_in_its_snapshot(make):
    """Wording is checked here: `python -m tests.render.test_terminal` writes the files anew; read what changed."""
    assert stripped(printed(make(), width=80)) == snapshot(make).read_text(encoding="utf-8")


def test_the_order_is_answer_quantities_contributions_warnings_correction():
    audit = cross_fitted_audit()
    only(audit)["checks"]["notes"] = ["a warning"]
    blocks = audit_document(typed(audit)).blocks
    kinds = [block.name if isinstance(block, Table) else type(block).__name__ for block in blocks]
    assert kinds[0] == "Paragraph"
    assert blocks[0].tone == HEADLINE
    titles = [block.text for block in blocks if isinstance(block, Heading)]
    warnings = blocks.index(Heading("Warnings"))
    correction = next(index for index, block in enumerate(blocks) if isinstance(block, Details))
    assert kinds.index("estimates") < kinds.index("contributions") < warnings < correction
    assert titles[-1] == "Data"
    estimates = next(block for block in blocks if isinstance(block, Table) and block.name == "estimates")
    first = [row[0].text for row in estimates.rows][:4]
    assert first == [quantity(key).name(POINTS) for key in ("gap", "adjusted_gap", "impact_ratio", "shortfall")]
    names = [row[0].text for row in blocks[correction].blocks[0].rows]
    assert set(names) <= {quantity(key).name(POINTS) for key in CORRECTION_KEYS}
    assert not {quantity(key).name(POINTS) for key in HEADLINE_KEYS} & set(names)
    assert f"{100 * only(audit)['gap']['value']:.1f} points (95% CI " in blocks[0].text
    assert titles[0] == "Next steps"


@pytest.mark.parametrize("width", [40, 60, 80, 110])
@pytest.mark.parametrize("make", AUDITS, ids=lambda make: make.__name__)
def test_nothing_is_cut_off_at_any_width(make, width):
    audit = make()
    shown = printed(audit, width=width)
    assert "…" not in shown
    assert max(len(line) for line in shown.splitlines()) <= width
    words = " ".join(shown.split())
    for row in only(audit)["contributions"]:
        assert row["feature"] in words
        for name in ("alone", "beyond_others"):
            shown_as = formats.points if audit["score_type"] != "amount" else None
            if shown_as and row[f"{name}_low"] is not None:
                assert formats.interval(row[f"{name}_low"], row[f"{name}_high"], shown_as) in words
    assert not re.search(r"\d+ to\n|[<=]\n|95%\n *CI", stripped(shown))  # no interval and no p-value is split


@pytest.mark.parametrize("width", [40, 44, 50, 60])
def test_a_heading_wider_than_its_numbers_cuts_no_interval(width):
    """D10: intervals were cut to "[-12.06, -7.…"."""
    columns = (Column("period", NAME), Column("gap (points)"), Column("audited"), Column("reference"))
    row = (Cell("1"), Cell("−30.06", "−39.51 to −19.84"), Cell("41.2%"), Cell("71.3%"))
    console = Console(file=io.StringIO(), width=width)
    console.print(FittedTable(Table("periods", columns, (row,), "95% CI"), str))
    assert "…" not in console.file.getvalue()
    assert "−39.51 to −19.84" in console.file.getvalue()


def test_what_there_is_no_room_for_is_named():
    row = only(cross_fitted_audit())["contributions"][0]
    shapley = formats.interval(row["shapley_low"], row["shapley_high"], formats.points)
    assert shapley in printed(cross_fitted_audit(), width=110)
    narrow = printed(cross_fitted_audit(), width=80)
    assert shapley not in narrow
    assert "at this width: Shapley." in narrow
    assert shapley in printed(cross_fitted_audit(), width=60)  # as a list


@pytest.mark.parametrize("width", [80, 110])
def test_long_names_and_verdicts_wrap(width):
    audit = cross_fitted_audit()
    rows = only(audit)["contributions"]
    for row, verdict in zip(rows, sorted(VERDICTS, key=len)[-len(rows) :], strict=True):
        row |= {"verdict": verdict, "feature": f"{row['feature']} with a name of many words"}
    shown = printed(audit, width=width)
    lines = [line for line in shown.splitlines() if "│" in line]
    cells = " ".join(line.rsplit("│", 1)[1].strip() for line in lines)
    assert all(row["verdict"] in cells for row in rows)
    assert max(len(line) for line in shown.splitlines()) <= width


@pytest.mark.parametrize("text", VERDICTS)
def test_directions_and_marks_are_those_of_evidence_whatever_it_is_called(text):
    audit = cross_fitted_audit()
    rows = only(audit)["contributions"]
    for row in rows:
        row |= {"verdict": text, "direction": f"towards {row['feature']}"}
    is_evidence = VERDICTS[text].kind == EVIDENCE
    assert (f". towards {rows[0]['feature']}." in printed(audit)) == is_evidence
    assert (f"\x1b[1m{text}" in printed(audit, force_terminal=True, color_system="standard")) == is_evidence


def test_equal_reasons_stand_together():
    audit = cross_fitted_audit()
    rows = only(audit)["contributions"]
    rows[0] |= {"notes": "cut into 10 bins"}
    needed = Note("more rows", rows=9_000)
    for row in rows[3:]:
        row |= {"verdict": "inconclusive", "reason": needed}
    shown = " ".join(printed(audit).split())
    assert "Cut into 10 bins." in shown
    assert f"• Sex, LengthOfStay: {needed}." in shown
    for row in rows[:3]:
        assert f"• {row['feature']}: {row['reason']}. {row['direction']} defendants." in shown
    assert "and 192 more: " in printed({**audit, "comparisons": {"x": many()}})


def test_the_minus_sign_is_a_hyphen_where_the_encoding_has_none():
    audit = cross_fitted_audit()
    for encoding, sign in (("utf-8", "−"), ("latin-1", "-"), ("ascii", "-")):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="replace")
        print_result(typed(audit), Console(file=stream, width=100))
        stream.flush()
        text = stream.buffer.getvalue().decode(encoding)
        assert f"{sign}0.06" in text, encoding
        assert ("−" in text) == (sign == "−")


def test_numbers_have_no_plus_and_percentages_no_space():
    for make in AUDITS:
        shown = printed(make(), width=100)
        assert not re.search(r"[+]\d", shown)
        assert not re.search(r"\d %", shown)


def test_four_fifths_are_of_decisions():
    scores, decisions = printed(cross_fitted_audit()), printed(decisions_audit())
    assert "0.80" not in scores.replace("0.80 to 0.83", "")
    ratio = only(decisions_audit())["adverse_impact_ratio"]
    assert f"{formats.with_interval(**ratio, write=formats.ratio, name='95% CI')}. Inconclusive" in decisions
    audit = decisions_audit()
    only(audit)["adverse_impact_ratio"] = {"value": 0.5, "low": 0.4, "high": 0.6}
    assert "below four fifths (0.80)" in printed(audit)
    only(audit)["adverse_impact_ratio"] = {"value": 0.9, "low": None, "high": None}
    assert "Above four fifths" in printed(audit)


def test_people_are_whole():
    line = next(line for line in printed(cross_fitted_audit()).splitlines() if line.startswith("shortfall"))
    assert re.search(r"\b334 │ +301 to 367\b", line)


@pytest.mark.parametrize("width", [60, 80, 110])
def test_the_demo_says_which_numbers_are_which(width):
    console = Console(file=io.StringIO(), width=width)
    print_demo(Experiment(typed(demo()), typed(cross_fitted_audit()), {"cost": 0.5}), console)
    shown = console.file.getvalue()
    assert max(len(line) for line in shown.splitlines()) <= width
    for part in ("the paper's numbers", "cross-fitted", "−0.62449"):
        assert part in shown


def test_a_group_that_says_nothing_by_itself_is_printed_with_its_column():
    audit = cross_fitted_audit()
    audit |= {
        "group": "afam",
        "reference": "no",
        "comparisons": {"yes": only(audit) | {"audited": "yes", "reference": "no"}},
    }
    assert re.search(r"^afam = yes \(3,175, audited\) vs afam = no", printed(audit), re.MULTILINE)


if __name__ == "__main__":
    for made in AUDITS:
        snapshot(made).write_text(stripped(printed(made(), width=80)), encoding="utf-8")
