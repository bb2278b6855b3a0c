"""`tiltlens repair` and `tiltlens alternatives`: the numbers of Python, in files and on the terminal."""

import json

import numpy as np
import polars as pl
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from tests.command import invoked
from tests.repair.test_evaluation import borrowers

import tiltlens as tl
from tiltlens._repair.evaluation import evaluations_summary

COMMON = ("--group", "group", "--reference", "b", "--scores", "score")
OUTCOME = ("--outcome", "repaid")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("repair")
    borrowers(1500).write_parquet(path / "audited.parquet")
    borrowers(1000, 1).write_parquet(path / "held_out.parquet")
    borrowers(200, 2).drop("group", "repaid").write_csv(path / "new.csv")
    return path


@pytest.fixture(scope="module")
def repairs(folder):
    table = pl.read_parquet(folder / "audited.parquet").drop("repaid")
    c = tl.audit(table, "group", reference="b", scores="score", folds=None)
    return c["a"].repair(), c["a"].repair(use_group=True)


@pytest.fixture(scope="module")
def done(folder):
    files = ("--save", "repair.json", "--json", "evaluation.json", "--report", "evaluation.html")
    new = ("--apply", "new.csv", "--out", "repaired.csv")
    held_out = ("--held-out", "held_out.parquet")
    return invoked("repair", "audited.parquet", *COMMON, *OUTCOME, *held_out, *files, *new, cwd=folder)


def test_the_evaluation_is_that_of_python_with_the_cost_of_blindness(folder, done, repairs):
    written = (("adjusted table", "repaired.csv"), ("adjustment", "repair.json"), ("report", "evaluation.html"))
    assert done.stderr == "".join(f"Wrote the {what} to {name}.\n" for what, name in written)
    blind, aware = repairs
    held_out = pl.read_parquet(folder / "held_out.parquet")
    expected = blind.evaluate(held_out, "score", "group", outcome="repaid", compare_with=aware)
    assert json.loads((folder / "evaluation.json").read_text()) == evaluations_summary([expected])
    for words in ("Cost of not using the group", "Changed decisions", "The law may restrict", "log loss"):
        assert words in done.stdout
    assert "score adjustment on held-out" in (folder / "evaluation.html").read_text()


def test_new_rows_are_repaired_as_in_python(folder, done, repairs):
    new = pl.read_csv(folder / "new.csv")
    written = pl.read_csv(folder / "repaired.csv")
    assert written.drop("score_repaired").columns == new.columns
    assert written["score_repaired"].to_numpy() == pytest.approx(repairs[0].apply(new, "score"), abs=1e-12)


def test_a_saved_repair_is_evaluated_and_applied_as_it_is(folder, done):
    first = json.loads((folder / "evaluation.json").read_text())["evaluations"]["a"]
    options = ("--scores", "score", "--group", "group", *OUTCOME, "--held-out", "held_out.parquet", "--json", "-")
    again = invoked("repair", "repair.json", *options, cwd=folder)
    assert json.loads(again.stdout)["evaluations"]["a"] == first | {"compared_with": None, "cost_of_blindness": None}
    applied = ("--scores", "score", "--apply", "new.csv", "--out", "again.csv")
    shown = invoked("repair", "repair.json", *applied, cwd=folder)
    assert "mean scores equal" in shown.stdout
    assert (folder / "again.csv").read_text() == (folder / "repaired.csv").read_text()


def test_a_repair_with_the_group_says_that_it_needs_it(folder):
    options = (*COMMON, "--use-group", "--threshold", "0.5", "--max-gap", "0.02", "--exclude", "repaid")
    found = invoked("repair", "audited.parquet", *options, cwd=folder)
    assert "0.5 at most 2.0 points" in " ".join(found.stdout.split())
    assert "group of each" in found.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("audited.parquet", *COMMON, "--apply", "new.csv"), "--apply needs --out"),
        (("audited.parquet", *COMMON, "--apply", "new.csv", "--out", "new.txt"), "must end in .csv or .parquet"),
        (("audited.parquet", *COMMON, "--report", "a.html"), "--report needs --held-out"),
        (("audited.parquet", *COMMON, "--save", "nowhere/a.json"), "cannot be written"),
        (("audited.parquet", "--group", "group"), "needs --scores"),
        (("repair.json", *COMMON), "--reference cannot be used with a saved adjustment"),
        (("repair.json", "--scores", "score", "--held-out", "held_out.parquet"), "needs --group"),
        (("audited.parquet", *COMMON, "--held-out", "audited.parquet"), "were used in the audit"),
        (
            ("audited.parquet", *COMMON, "--scores", "other", "--apply", "new.csv", "--out", "a.csv"),
            "--scores",
        ),
    ],
)
def test_mistakes_are_named_and_nothing_is_written(folder, done, arguments, message):
    before = sorted(folder.iterdir())
    found = invoked("repair", *arguments, cwd=folder)
    assert found.returncode == 2
    assert message in found.stderr
    assert sorted(folder.iterdir()) == before


def test_several_groups_are_repaired_at_once_and_evaluated_one_by_one(folder):
    options = ("--group", "area", "--scores", "score", "--features", "income,noise", "--use-group", "--max-gap", "0.01")
    found = invoked("repair", "audited.parquet", *options, "--held-out", "held_out.parquet", "--json", "-", cwd=folder)
    evaluations = json.loads(found.stdout)["evaluations"]
    assert len(evaluations) == 2
    for name, evaluation in evaluations.items():
        assert evaluation["repair"]["audited"] == name
        gap = next(row for row in evaluation["table"] if row["quantity"] == "gap")
        assert abs(gap["after"] - 0.01) < 3 * 0.5 * (gap["after_high"] - gap["after_low"]) / 1.96
    shown = invoked("repair", "audited.parquet", *options, "--held-out", "held_out.parquet", cwd=folder).stdout
    assert all(f"{name} (audited)" in shown for name in evaluations)


def test_scores_of_several_classes_are_repaired_together(worded, folder):
    for name, seed in (("classes", 0), ("other_classes", 1)):
        rng = np.random.default_rng(seed)
        mine = rng.random(600) < 0.4
        x = rng.normal(size=600) - 0.6 * mine
        scores = softmax(np.column_stack([np.zeros(600), x, 0.3 * rng.normal(size=600) - x]), axis=1)
        columns = dict(zip(("low", "mid", "high"), scores.T, strict=True))
        pl.DataFrame({"group": np.where(mine, "a", "b"), "x": x, **columns}).write_csv(folder / f"{name}.csv")
    scores = ("--scores", "low", "--scores", "mid", "--scores", "high")
    options = ("--group", "group", *scores, "--features", "x", "--favourable", "mid", "--save", "classes.json")
    found = invoked("repair", "classes.csv", *options, "--held-out", "other_classes.csv", "--json", "-", cwd=folder)
    gap = json.loads(found.stdout)["evaluations"]["a"]["table"][0]
    assert abs(gap["after"]) < 0.03 < abs(gap["before"])
    applied = ("--apply", "other_classes.csv", "--out", "new_classes.csv")
    invoked("repair", "classes.json", *scores, *applied, cwd=folder)
    repaired = pl.read_csv(folder / "new_classes.csv").select("low_repaired", "mid_repaired", "high_repaired")
    assert repaired.sum_horizontal().to_numpy() == pytest.approx(np.ones(600), abs=1e-12)
    few = invoked("repair", "classes.json", *scores[:2], *applied, cwd=folder)
    worded(few.stderr)


def test_weights_hold_for_the_held_out_rows_too(folder, repairs):
    held_out = pl.read_parquet(folder / "held_out.parquet").with_columns(people=1.0 + (pl.col("area") == "east"))
    held_out.write_parquet(folder / "weighted.parquet")
    expected = repairs[0].evaluate(held_out, "score", "group", sample_weight="people")
    options = ("--scores", "score", "--group", "group", "--sample-weight", "people", "--held-out", "weighted.parquet")
    repairs[0].to_json(folder / "again.json")
    found = invoked("repair", "again.json", *options, "--json", "-", cwd=folder)
    assert json.loads(found.stdout) == evaluations_summary([expected])


def test_groups_may_be_crossed(folder):
    for name in ("audited", "held_out"):
        table = pl.read_parquet(folder / f"{name}.parquet").with_columns(side=pl.lit("x"))
        table.write_parquet(folder / f"crossed_{name}.parquet")
    options = ("--group", "group", "--group", "side", "--scores", "score", "--exclude", "repaid", "--use-group")
    found = invoked("repair", "crossed_audited.parquet", *options, "--held-out", "crossed_held_out.parquet", cwd=folder)
    assert "a & side = x (audited)" in found.stdout
    assert "accuracy: unknown" in found.stdout


def test_alternatives_are_those_of_python(folder):
    options = (*COMMON, *OUTCOME, "--json", "found.json", "--report", "found.html", "--tolerance", "0.01")
    done = invoked("alternatives", "audited.parquet", *options, cwd=folder)
    assert done.returncode == 0
    table = pl.read_parquet(folder / "audited.parquet")
    expected = tl.alternatives(table, "group", reference="b", scores="score", outcome="repaid", tolerance=0.01)["a"]
    assert json.loads((folder / "found.json").read_text())["comparisons"]["a"] == expected.to_dict()
    assert str(expected) in " ".join(done.stdout.split())
    assert "Less discriminatory alternatives" in (folder / "found.html").read_text()


def test_alternatives_without_an_outcome_are_refused(folder):
    found = invoked("alternatives", "audited.parquet", *COMMON, cwd=folder)
    assert (found.returncode, "needs --outcome" in found.stderr) == (2, True)


def test_a_condition_holds_for_the_held_out_rows_too(folder):
    options = (*COMMON, "--where", "area=east", "--exclude", "repaid", "--use-group", "--held-out", "held_out.parquet")
    found = invoked("repair", "audited.parquet", *options, "--json", "-", cwd=folder)
    held_out = pl.read_parquet(folder / "held_out.parquet").filter(area="east")
    sizes = {"audited": (held_out["group"] == "a").sum(), "reference": (held_out["group"] == "b").sum()}
    assert json.loads(found.stdout)["evaluations"]["a"]["rows"] == sizes


def test_with_the_model_alternatives_tell_what_ifs(folder):
    import skops.io

    table = borrowers(600)[["group", "noise", "repaid"]].with_columns(other=pl.col("noise").shuffle(0))
    table.write_parquet(folder / "asked.parquet")
    x = table.select("noise", "other").to_pandas()
    skops.io.dump(LogisticRegression().fit(x, table["repaid"].to_numpy()), folder / "model.skops")
    options = ("--group", "group", "--model", "model.skops", *OUTCOME, "--json", "-")
    found = invoked("alternatives", "asked.parquet", *options, cwd=folder)
    comparison = json.loads(found.stdout)["comparisons"]["a"]
    assert {row["feature"] for row in comparison["what_ifs"]} == {"noise", "other"}
