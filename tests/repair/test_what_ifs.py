"""What single features of the audited model do, neutralised or coarsened, against the model asked by hand."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, ndtri
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tiltlens as tl
from tiltlens._repair import what_ifs as module
from tiltlens._repair.quantities import EvaluationRows
from tiltlens._repair.what_ifs import what_ifs

TOWNS = ["big", "mid", "small", "tiny", "hamlet"]
QUESTION = {"group": "group", "reference": "b", "outcome": "repaid", "features": ["x", "z", "town"]}


def people(rows=1200, seed=0):
    """Return people whose outcome goes by x alone; z and the town tell the group."""
    rng = np.random.default_rng(seed)
    mine = rng.random(rows) < 0.4
    x = rng.standard_normal(rows) - 0.3 * mine
    town = np.where(mine & (rng.random(rows) < 0.5), "mid", rng.choice(TOWNS, rows, p=[0.6, 0.32, 0.03, 0.03, 0.02]))
    return pd.DataFrame(
        {
            "group": np.where(mine, "a", "b"),
            "x": x,
            "z": rng.standard_normal(rows) - 1.2 * mine,
            "town": pd.Categorical(town),
            "repaid": (rng.random(rows) < expit(1.5 * x)).astype(int),
        }
    )


def scored(frame):
    """Return scores that lean on z and on the town."""
    of_town = pd.Series(frame["town"]).map({"big": 0.2, "mid": 0.0, "small": 1.0, "tiny": -1.0, "hamlet": 0.5})
    return expit(1.2 * frame["x"] + 1.0 * frame["z"] + of_town.astype(float)).to_numpy()


def mixed(frame):
    """Return the scores with rare towns averaged over all rare ones."""
    rare = frame["town"].isin(["small", "tiny", "hamlet"])
    shares = frame.loc[rare, "town"].value_counts(normalize=True)
    names = frame["town"].astype(str)
    return sum(share * scored(frame.assign(town=names.where(~rare, town))) for town, share in shares.items())


def gap(frame, decided):
    mine = (frame["group"] == "a").to_numpy()
    return decided[mine].mean() - decided[~mine].mean()


def what_if(found, feature, kind):
    return found.what_ifs.filter(feature=feature, what_if=kind).row(0, named=True)


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.fixture(scope="module")
def found(table):
    return tl.alternatives(table, model=scored, **QUESTION)["a"]


def asked(data, model):
    """Return the what-ifs alone: no rule is fitted."""
    p = tl.audit(data, model=model, folds=None, **QUESTION)["a"]._profiles
    return what_ifs(p.model, EvaluationRows(p.rows, p.sampled.y_true, 0.5), p.sampled.scores, 0.95)[0]


def test_neutralised_is_the_mean_over_the_values_of_the_reference(table, found):
    reference = table.loc[table["group"] == "b", "town"]
    shares = reference.value_counts(normalize=True)
    score = sum(share * scored(table.assign(town=town)) for town, share in shares.items())
    row, y = what_if(found, "town", "neutralised"), table["repaid"]
    assert row["score_gap"] == pytest.approx(gap(table, score), abs=1e-12)
    assert row["gap"] == pytest.approx(gap(table, score >= 0.5), abs=1e-12)
    assert row["auc"] == pytest.approx(roc_auc_score(y, score), abs=1e-12)
    own = scored(table)
    assert row["score_gap_change"] == pytest.approx(gap(table, score - own), abs=1e-12)
    right = ((score >= 0.5) == y).mean() - ((own >= 0.5) == y).mean()
    assert row["accuracy_change"] == pytest.approx(right, abs=1e-12)


def test_neutralised_numbers_are_averaged_over_quantiles(table, found):
    values = table.loc[table["group"] == "b", "z"].to_numpy()
    score = np.mean([scored(table.assign(z=value)) for value in np.sort(values)[2::5]], axis=0)
    assert what_if(found, "z", "neutralised")["score_gap"] == pytest.approx(gap(table, score), abs=5e-4)


def test_coarsened_numbers_are_the_medians_of_quartiles(table, found):
    quartile = pd.qcut(table["x"], 4, labels=False)
    score = scored(table.assign(x=table.groupby(quartile)["x"].transform("median")))
    assert what_if(found, "x", "coarsened")["score_gap"] == pytest.approx(gap(table, score), abs=2e-3)
    assert table["x"].nunique() > 4


def test_coarsened_categories_mix_their_rare_levels(table, found):
    assert what_if(found, "town", "coarsened")["score_gap"] == pytest.approx(gap(table, mixed(table)), abs=1e-12)


def test_what_predicts_nothing_costs_no_accuracy(found):
    row = what_if(found, "z", "neutralised")
    assert row["gap_change_low"] > 0.05  # the gap was below 0
    assert row["accuracy_change_high"] > 0.0
    assert found.what_ifs["feature"][0] == "z"
    note = found.notes[0]
    assert (note.code, note.values["feature"], note.values["what_if"]) == ("strongest what-if", "z", "neutralised")


def test_changes_are_paired(table, found):
    row, moved = what_if(found, "town", "coarsened"), mixed(table) - scored(table)
    mine = (table["group"] == "a").to_numpy()
    error = np.sqrt(sum(moved[who].var() / who.sum() for who in (mine, ~mine)))
    level = 0.95 ** (1 / found.what_ifs.height)  # of all what-ifs at once
    half = (row["score_gap_change_high"] - row["score_gap_change_low"]) / 2
    assert half == pytest.approx(ndtri((1 + level) / 2) * error, rel=1e-9)


def test_every_kind_of_table_and_model_is_asked_alike(tmp_path):
    table = people(400, 1)
    inputs = table[["x", "z", "town"]]
    pipe = make_pipeline(
        make_column_transformer((StandardScaler(), ["x", "z"]), (OneHotEncoder(), ["town"])), LogisticRegression()
    ).fit(inputs, table["repaid"])
    frame = pl.DataFrame({name: table[name].astype(str) if name == "town" else table[name] for name in table.columns})
    frame.write_parquet(tmp_path / "people.parquet")
    kinds = {
        "pandas": table.set_index(pd.Index(np.arange(len(table)) // 2)),
        "polars": frame,
        "arrow": frame.to_arrow(),
        "dict": {name: table[name].to_numpy() for name in table.columns},
        "file": str(tmp_path / "people.parquet"),
    }
    found = {kind: asked(data, pipe) for kind, data in kinds.items()}
    assert found["polars"].height == 6
    for kind, one in found.items():
        expected = found["polars"].sort("feature", "what_if")
        for ours, theirs in zip(one.sort("feature", "what_if").rows(), expected.rows(), strict=True):
            assert ours[:2] == theirs[:2], kind
            assert ours[2:] == pytest.approx(theirs[2:], abs=1e-9), kind


def test_scores_alone_say_that_the_model_is_needed(table):
    frame = table[:600].assign(score=scored(table[:600]))
    found = tl.alternatives(frame, scores="score", **QUESTION)["a"]
    assert found.what_ifs.is_empty()
    assert found.notes[0].code == "what-ifs need the model"
    assert found.to_dict()["what_ifs"] == []


def test_columns_that_the_model_does_not_see_are_not_asked_about(table):
    model = LogisticRegression().fit(table[["x", "z"]], table["repaid"])
    assert set(asked(table, model)["feature"]) == {"x", "z"}


def test_values_of_every_kind_are_asked_about():
    table = people(400, 2)
    table = table.assign(
        day=pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(400) % 90, unit="D"),
        owner=np.arange(400) % 3 == 0,
        rate=np.where(np.arange(400) % 7 == 0, np.nan, table["x"]),
    )
    names = ["x", "day", "owner", "rate"]

    def model(rows):
        days = (rows["day"] - pd.Timestamp("2024-01-01")).dt.days
        return expit(rows["x"] + 0.01 * days + rows["owner"] + rows["rate"].fillna(0.3)).to_numpy()

    c = tl.audit(table, model=model, folds=None, **QUESTION | {"features": names})["a"]
    p = c._profiles
    found = what_ifs(p.model, EvaluationRows(p.rows, p.sampled.y_true, 0.5), p.sampled.scores, 0.95)[0]
    assert sorted(found.select("feature", "what_if").rows()) == sorted(
        [(name, "neutralised") for name in names] + [(name, "coarsened") for name in ("x", "day", "rate")]
    )
    shares = table.loc[table["group"] == "b", "owner"].value_counts(normalize=True)
    score = sum(share * model(table.assign(owner=value)) for value, share in shares.items())
    row = found.filter(feature="owner").row(0, named=True)
    assert row["score_gap"] == pytest.approx(gap(table, score), abs=1e-12)


def test_what_the_model_refuses_is_noted(table):
    def model(rows):
        if (pd.Series(rows["town"]) == "big").all():
            raise ValueError("nobody lives there")
        return scored(rows)

    p = tl.audit(table[:500], model=model, folds=None, **QUESTION)["a"]._profiles
    found, notes = what_ifs(p.model, EvaluationRows(p.rows, p.sampled.y_true, 0.5), p.sampled.scores, 0.95)
    assert ("town", "neutralised") not in found.select("feature", "what_if").rows()
    assert (notes[0].code, notes[0].values["feature"]) == ("what-if refused", "town")


def test_many_rows_are_asked_about_in_part(table, monkeypatch):
    monkeypatch.setattr(module, "WHAT_IF_ROWS", 600)
    p = tl.audit(table, model=scored, folds=None, **QUESTION)["a"]._profiles
    some, weights = module._sample(p.rows)
    mine = p.rows.audited
    assert mine[some].sum() == 300 == (~mine[some]).sum()
    assert weights[mine[some]].sum() == pytest.approx(mine.sum())
    note = what_ifs(p.model, EvaluationRows(p.rows, p.sampled.y_true, 0.5), p.sampled.scores, 0.95)[1][0]
    assert (note.code, note.values) == ("sampled what-ifs", {"rows": 600})
