"""What a reader should know of the data and the model stands in every view."""

import io
import re

import polars as pl
import pytest
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from tests.people import audited, note_codes, people

from tiltlens._estimators.verdicts import Verdict
from tiltlens._formats import minus, sentence
from tiltlens._notes import Note
from tiltlens._render.terminal import print_result

NUMBERS = people().select("group", "income", "weight").fill_null(40.0).with_columns(is_rich=pl.col("income") > 48)


def printed(audit):
    console = Console(width=110, file=io.StringIO())
    print_result(audit, console)
    return " ".join(console.file.getvalue().split())


def test_groups_that_are_probably_one_are_noted():
    frame = people().with_columns(group=pl.when(pl.int_range(400) % 9 == 0).then(pl.lit("b ")).otherwise("group"))
    audit = audited(frame, folds=None)
    for comparison in audit.comparisons.values():
        assert Note("similar group names", groups="'B', 'b '") in comparison.checks.notes


def test_the_order_of_columns_given_to_a_model_without_names_is_noted_in_every_view(tmp_path):
    model = LogisticRegression().fit(NUMBERS.select("weight", "income").to_numpy(), NUMBERS["is_rich"].to_numpy())
    audit = audited(NUMBERS, scores=None, model=model, features=["weight", "income"], folds=None)
    note = "the model has no column names; it was given 'weight', 'income' in this order"
    assert note in audit["A"].checks.notes
    assert note in audit.to_dict()["comparisons"]["A"]["checks"]["notes"]
    assert sentence(note) in printed(audit)
    audit.report(tmp_path / "a.html")
    assert sentence(note).replace("'", "&#39;") in (tmp_path / "a.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["names", "function"])
def test_a_model_that_knows_column_names_is_not_noted(kind):
    table = NUMBERS.to_pandas()
    fitted = LogisticRegression().fit(table[["weight", "income"]], table["is_rich"])
    model = fitted if kind == "names" else lambda frame: fitted.predict_proba(frame[["weight", "income"]])[:, 1]
    audit = audited(table, scores=None, model=model, features=["income", "weight"], folds=None)
    assert "model without names" not in note_codes(audit["A"])


def test_a_key_and_a_constant_say_so_in_the_terminal():
    frame = people().with_columns(key=pl.format("k{}", pl.int_range(400)), same=pl.lit("x"))
    text = printed(audited(frame, features=["income", "key", "same"], propensity="chance"))
    assert f"key: {Note('looks like an identifier')}" in text
    assert re.search(rf"same .* {Verdict.NO_MATERIAL_CONTRIBUTION}", text)
    assert sentence(Note("one value")) in text


@pytest.mark.parametrize(
    ("plain", "written"),
    [("-€1,305 (-£2 to -3)", "−€1,305 (−£2 to −3)"), ("2024-05-01 and x-1", "2024-05-01 and x-1")],
)
def test_a_minus_stands_before_a_currency_too(plain, written):
    assert minus(plain) == written
