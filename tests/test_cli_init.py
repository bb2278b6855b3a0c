"""`tiltlens init`: an audit file from the names and values of columns, which runs, and which overwrites nothing."""

import numpy as np
import polars as pl
import pytest
from tests.command import invoked

from tiltlens._commands import draft
from tiltlens._commands.audit_file import read_audit_file
from tiltlens._commands.draft import guess_roles


def people(rows=300):
    rng = np.random.default_rng(3)
    sex = rng.choice(["f", "m"], rows)
    income = rng.normal(50, 10, rows) - 5 * (sex == "f")
    score = 1 / (1 + np.exp(-(income - 48) / 10))
    return pl.DataFrame(
        {
            "customer_id": rng.integers(0, 100, rows),
            "application_id": range(rows),
            "sex": sex,
            "income": income,
            "risk_score": score,
            "repaid": (rng.random(rows) < score).astype(int),
        }
    )


@pytest.fixture
def folder(tmp_path):
    people().write_csv(tmp_path / "people.csv")
    return tmp_path


def guessed(table, **given):
    return {key: guess.column for key, guess in guess_roles(table, given).guesses.items()}


def test_roles_follow_from_names_and_values():
    roles = guess_roles(people(), {})
    assert {key: guess.column for key, guess in roles.guesses.items()} == {
        "group": "sex",
        "scores": "risk_score",
        "outcome": "repaid",
        "clusters": "customer_id",
    }
    assert roles.excluded == ("application_id",)
    assert roles.free == ["income"]


def test_the_written_file_runs(folder):
    done = invoked("init", "people.csv", "--yes", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "audit.yaml").write_text((folder / "audit.yaml").read_text().replace("report: audit.html, ", ""))
    ran = invoked("run", "audit.yaml", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert (folder / "audit.json").is_file()


def test_an_existing_file_is_kept(folder):
    (folder / "audit.yaml").write_text("mine")
    done = invoked("init", "people.csv", "--yes", cwd=folder)
    assert done.returncode == 2
    assert "audit.yaml exists" in done.stderr
    assert (folder / "audit.yaml").read_text() == "mine"


def test_without_a_guess_nothing_is_written_and_the_option_is_named(folder):
    people().rename({"sex": "first_name"}).write_csv(folder / "names.csv")
    done = invoked("init", "names.csv", "--yes", cwd=folder)
    assert done.returncode == 2
    assert "--group" in done.stderr
    assert not (folder / "audit.yaml").exists()


def test_on_a_terminal_it_asks(worded, folder, monkeypatch):
    people().rename({"sex": "who"}).write_csv(folder / "who.csv")
    asked = []
    monkeypatch.setattr(draft.click, "prompt", lambda question, **_: asked.append(question) or "who")
    monkeypatch.setattr(
        draft, "sys", type("Sys", (), {"stdin": type("In", (), {"isatty": staticmethod(lambda: True)})})
    )
    assert invoked("init", "who.csv", cwd=folder).returncode == 0
    assert len(asked) == 1
    worded(asked)
    assert read_audit_file(folder / "audit.yaml").options["group"] == ("who",)


@pytest.mark.parametrize("name", ['a "b" # c', "no", "x: {y}", "ünï'code", "- 1"])
def test_any_name_of_a_column_survives_the_file(name, folder):
    people().rename({"income": name}).write_csv(folder / "odd.csv")
    assert invoked("init", "odd.csv", "--yes", cwd=folder).returncode == 0
    assert name in read_audit_file(folder / "audit.yaml").options["features"]


def test_decisions_in_words_name_the_word_that_people_want(folder):
    words = people().with_columns(
        decision=pl.when(pl.col("risk_score") > 0.5).then(pl.lit("denied")).otherwise(pl.lit("approved"))
    )
    words.drop("risk_score").write_csv(folder / "words.csv")
    assert invoked("init", "words.csv", "--yes", cwd=folder).returncode == 0
    assert read_audit_file(folder / "audit.yaml").options["favourable"] == "approved"


def test_amounts_are_called_amounts(folder):
    people().with_columns(premium=pl.col("income") * 10).drop("risk_score").write_csv(folder / "premiums.csv")
    assert invoked("init", "premiums.csv", "--yes", cwd=folder).returncode == 0
    text = (folder / "audit.yaml").read_text()
    assert "score_type: amount" in text
    assert "favourable: low" in text


def test_what_the_user_names_is_not_guessed():
    assert guessed(people().with_columns(race=pl.lit("a")), group="sex")["group"] == "sex"
    with pytest.raises(ValueError, match="sexx"):
        guess_roles(people(), {"group": "sexx"})


@pytest.mark.parametrize("name", ["-", ""])
def test_an_audit_file_has_a_name(folder, name):
    result = invoked("init", "people.csv", "--yes", "--out", name, cwd=folder)
    assert (result.returncode, "--out must name a file" in result.stderr) == (2, True)
    assert [path.name for path in folder.iterdir()] == ["people.csv"]
