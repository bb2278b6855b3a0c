"""The user's words are checked, saved, and used by every view."""

import re
from dataclasses import replace

import pytest
from click.testing import CliRunner
from tests.people import audited, people

import tiltlens as tl
from tiltlens._cli import main
from tiltlens._documents.audit_document import audit_document
from tiltlens._documents.document import group_words
from tiltlens._documents.first_screen import first_screen
from tiltlens._render.page import page
from tiltlens._rows.wording import Wording, check_wording, measure_for
from tiltlens.errors import DataError

APPLICANTS = {"people": "applicants", "favourable": "approved"}


def decisions(**options):
    return audited(people(), threshold=0.5, propensity="chance", **options)


@pytest.fixture(scope="module")
def approved():
    return decisions(wording=APPLICANTS)


@pytest.fixture(scope="module")
def paid():
    table = people().with_columns(score=1_000 + 3_000 * people()["score"])
    return audited(table, score_type="amount", propensity="chance", wording={"people": "employees", "unit": "€"})


@pytest.mark.parametrize(
    ("given", "score_type", "problem"),
    [
        ("applicants", "probability", "must be a dict"),
        ({"peple": "applicants"}, "probability", "has no key 'peple'.*did you mean 'people'"),
        ({"people": ""}, "probability", "1 to 40 printable characters"),
        ({"people": "a\nb"}, "probability", "1 to 40 printable characters"),
        ({"people": 3}, "probability", "1 to 40 printable characters"),
        ({"unit": "€"}, "probability", "the scores are not amounts"),
        ({"favourable": "paid"}, "amount", "amounts do not have"),
    ],
)
def test_words_that_cannot_be_used_are_refused(given, score_type, problem):
    with pytest.raises(DataError, match=f"(?s){problem}"):
        check_wording(given, score_type)


def test_either_spelling_is_read():
    assert check_wording({"favorable": "approved"}, "probability") == Wording(favourable="approved")
    assert check_wording(None, "probability") == Wording()


def test_the_headline_is_in_the_users_words(approved, worded):
    screen = first_screen(approved)
    worded(screen.headline)
    assert any("among applicants " in tile.note for tile in screen.tiles)
    assert "applicants" in screen.reliability[0].text


def test_words_are_saved_and_read_again(approved, tmp_path):
    approved.to_json(tmp_path / "audit.json")
    again = tl.read_audit(tmp_path / "audit.json")
    assert again.wording == again["A"].scale.wording == Wording("applicants", "approved")
    assert again.to_dict() == approved.to_dict()
    assert first_screen(again) == first_screen(approved)


def test_words_change_no_number(approved):
    plain, worded = decisions()["A"], approved["A"]
    assert (plain.gap, plain.adjusted_gap, plain.shortfall) == (worded.gap, worded.adjusted_gap, worded.shortfall)


def texts(blocks):
    for block in blocks:
        if hasattr(block, "text"):
            yield block.text
        yield from getattr(block, "items", ())
        yield from (cell.text for row in getattr(block, "rows", ()) for cell in row)


def test_every_amount_has_its_unit(paid):
    """D11: amounts stood without one, or with the word units."""
    written = " ".join(texts(audit_document(paid).blocks))
    assert "units" not in written
    gap = paid["A"].gap
    assert f" −€{-gap.value:.0f} (95% CI −€{-gap.low:.0f} to −€{-gap.high:.0f})" in first_screen(paid).headline
    assert all("€" in row["reason"] for row in paid["A"].contributions.to_dicts())
    assert "mean amount, in €" in page(paid)


@pytest.mark.parametrize(
    ("unit", "written"), [("€", ("−€1,383", "€340", "€2,365")), ("days", ("−1,383 days", "340 days", "2,365 days"))]
)
def test_signs_of_currencies_stand_before_the_number_and_words_behind(unit, written):
    m = measure_for("amount", None, Wording(unit=unit))
    assert (m.with_unit(m.difference(-1383.0)), m.with_unit(m.size(-340.0)), m.level(2365.0)) == written
    assert m.difference(None) == m.level(None) == "–"


@pytest.mark.parametrize(
    ("name", "written"),
    [("Black", "Black applicants"), ("25 to 45", "applicants (25 to 45)"), ("afam = yes", "applicants (afam = yes)")],
)
def test_a_group_and_its_noun(approved, name, written):
    assert group_words(replace(approved["A"], audited=name), "audited") == written


def test_the_command_line_and_audit_files_take_words(tmp_path, worded):
    people().write_csv(tmp_path / "data.csv")
    options = ["--group", "group", "--scores", "score", "--threshold", "0.5", "--features", ""]
    words = ["--wording", "people=applicants", "--wording", "favourable=approved"]
    result = CliRunner().invoke(main, ["audit", str(tmp_path / "data.csv"), *options, *words])
    assert result.exit_code == 0, result.output
    worded(re.findall(r"Applicants [^:]*:", " ".join(result.output.split())))
    (tmp_path / "audit.toml").write_text(
        'data = "data.csv"\ngroup = "group"\nscores = "score"\nthreshold = 0.5\nfeatures = []\n'
        '[wording]\npeople = "applicants"\n'
    )
    result = CliRunner().invoke(main, ["run", str(tmp_path / "audit.toml")])
    worded(re.findall(r"Applicants [^:]*:", " ".join(result.output.split())))
    result = CliRunner().invoke(main, ["audit", str(tmp_path / "data.csv"), *options, "--wording", "unit=€"])
    assert result.exit_code == 2
