"""The published numbers of the paper's COMPAS experiment, and the reference numbers that go with them."""

from functools import cache
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest
from scipy.signal import find_peaks
from scipy.stats import gaussian_kde
from sklearn.linear_model import LogisticRegression

import tiltlens as tl
from tiltlens._demo import paper_experiment
from tiltlens._learners.candidates import logistic_log_odds, outcome_scores
from tiltlens._rows.features import encode_features
from tiltlens.datasets import COMPAS_FEATURES, load_compas

PRINTED = {"PriorCounts": (0.4135, 0.629), "Age": (0.297, 0.103), "ChargeDegree": (0.105, 0.054)}
PRINTED |= {"Sex": (0.067, 0.104), "LengthOfStay": (0.027, 0.150)}


@cache
def experiment():
    return paper_experiment().to_dict()["comparisons"]["African-American"]


@cache
def rows():
    data = load_compas()
    audited = (data["race"] == "African-American").to_numpy()
    codes = data.select(f"{f}_code" for f in COMPAS_FEATURES).to_numpy().astype(float)
    log_odds = logistic_log_odds(encode_features(data, COMPAS_FEATURES), audited)
    return data, audited, codes, Columns(outcome_scores(data, COMPAS_FEATURES, "is_recid"), log_odds)


class Columns(NamedTuple):
    scores: np.ndarray
    log_odds: np.ndarray


def corrections(log_odds, scores, audited, **weights):
    return tl.correction_function(
        *(tl.GroupMoments.from_rows(log_odds[g], scores[g]) for g in (audited, ~audited)), **weights
    )


def test_output_means_against_paper():
    assert round(experiment()["outputs"]["means"]["audited"], 3) == 0.543
    assert round(experiment()["outputs"]["means"]["reference"], 3) == 0.438
    assert experiment()["outputs"]["means"]["audited"] == pytest.approx(0.54342, abs=5e-6)
    assert experiment()["outputs"]["means"]["reference"] == pytest.approx(0.43825, abs=5e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rho_m", 0.36411),
        ("a1", -0.51069),
        ("a2", 0.21230),
        ("b1", -0.21039),
        ("n_l", -1.60130),
        ("n_m", 0.12267),
        ("descent_rate", -0.62449),
    ],
)
def test_named_quantities_against_reference(name, value):
    assert experiment()["correction"]["numbers"][name] == pytest.approx(value, abs=5e-6)


def test_range_step_and_divergence_against_reference():
    c = experiment()
    assert c["correction"]["prototypes"]["min"]["correction"] == pytest.approx(-2.118, abs=5e-4)
    assert c["correction"]["prototypes"]["max"]["correction"] == pytest.approx(3.005, abs=5e-4)
    assert c["correction"]["epsilon_max"] == pytest.approx(0.472, abs=5e-4)
    assert c["correction"]["output_divergence"]["value"] == pytest.approx(0.02224, abs=5e-6)


def test_shares_against_reference():
    """PriorCounts is .4135 at the exact maximum of the likelihood; a solver that stops early gives .414."""
    shares = {row["feature"]: row for row in experiment()["contributions"]}
    assert list(shares) == list(PRINTED)
    for feature, (equal, outputs) in PRINTED.items():
        assert shares[feature]["share"] == pytest.approx(equal, abs=5e-4)
        assert shares[feature]["share_outputs"] == pytest.approx(outputs, abs=5e-4)


def test_table_1_against_paper_all_fifteen_cells():
    prototypes = experiment()["correction"]["prototypes"]
    expected = {
        "max": (">45", "Misdemeanor", "Female", "0", "<3 months"),
        "min": ("<25", "Felony", "Male", ">3", "<week"),
        "near_zero": ("25 to 45", "Felony", "Male", "1 to 3", "<week"),
    }
    for name, labels in expected.items():
        assert tuple(prototypes[name]["values"].values()) == labels
        assert list(prototypes[name]["values"]) == COMPAS_FEATURES
    assert {name: p["count"] for name, p in prototypes.items()} == {"max": 2, "min": 39, "near_zero": 229}


def test_table_1_counts_are_the_audited_people_in_the_cell():
    data, audited, _, _ = rows()
    for prototype in experiment()["correction"]["prototypes"].values():
        same = np.ones(len(data), dtype=bool)
        for feature, label in prototype["values"].items():
            same &= (data[feature].cast(str) == label).to_numpy()
        assert (same & audited).sum() == prototype["count"]


def test_figure_2_peaks_of_prior_counts_against_reference():
    data, audited, _, models = rows()
    f = corrections(models.log_odds, models.scores, audited)(models.log_odds, models.scores)
    many = audited & (data["PriorCounts"] == ">3").to_numpy()
    grid = np.linspace(-3, 3, 1201)
    density = gaussian_kde(f[many], bw_method=0.12)(grid)
    peaks = grid[find_peaks(density)[0]]
    for expected in (-2.10, -0.94, -0.58, 0.25):
        assert np.abs(peaks - expected).min() < 0.03, (expected, peaks)


def test_figure_2_length_of_stay_hardly_moves_the_correction_but_prior_counts_does():
    data, audited, _, models = rows()
    f = corrections(models.log_odds, models.scores, audited)(models.log_odds, models.scores)

    def spread(feature):
        means = [f[audited & (data[feature] == v).to_numpy()].mean() for v in data[feature].unique()]
        return max(means) - min(means)

    assert spread("PriorCounts") > 1.5
    assert spread("LengthOfStay") < spread("PriorCounts") / 3


def test_the_model_hardly_enters_at_equal_weights():
    """The paper's f~ at λ2 = λ4 = 1 is almost −f_l: correlation 0.9989."""
    _, audited, _, models = rows()
    f = corrections(models.log_odds, models.scores, audited)(models.log_odds, models.scores)
    assert np.corrcoef(f[audited], -models.log_odds[audited])[0, 1] == pytest.approx(0.9989, abs=5e-5)


def test_least_change_and_decisions_against_reference():
    c = experiment()
    assert c["least_change"]["tilt"] == pytest.approx(-3.0505, abs=5e-5)
    assert c["least_change"]["cost"] == pytest.approx(0.16140, abs=5e-6)
    assert c["correction"]["detection_sample_size"]["value"] == 250
    assert np.log(1 / 0.05) / c["correction"]["output_divergence"]["value"] == pytest.approx(135, abs=0.5)


def test_points_of_the_gap_against_reference():
    """The plug-in on cells: gap(j) = gap − c_j, its Shapley value and joint(j), in theory.md's printed digits."""
    c = experiment()
    rows = {row["feature"]: row for row in c["contributions"]}
    printed = {
        "PriorCounts": (0.05531, 0.05544, 0.05584),
        "Age": (0.03051, 0.03689, 0.04260),
        "ChargeDegree": (0.01032, 0.00539, 0.00100),
        "Sex": (0.00777, 0.00514, 0.00287),
        "LengthOfStay": (0.00539, 0.00231, -0.00063),
    }
    for feature, expected in printed.items():
        found = [rows[feature][name] for name in ("alone", "shapley", "beyond_others")]
        assert found == pytest.approx(expected, abs=1e-5)
    assert c["gap"]["value"] == pytest.approx(0.10517, abs=1e-5)
    assert c["adjusted_gap"] == {"value": 0.0, "low": None, "high": None}  # the score is a function of the features
    assert sum(row["shapley"] for row in rows.values()) == pytest.approx(c["gap"]["value"], abs=1e-12)


def test_factors_of_the_gap_against_reference():
    rows = {row["feature"]: row for row in experiment()["contributions"]}
    printed = {
        "PriorCounts": (0.1946, 0.3006, 0.945),
        "Age": (0.1921, 0.1589, 0.9995),
        "ChargeDegree": (0.1044, 0.0989, 1.0),
        "Sex": (0.0702, 0.1107, 1.0),
        "LengthOfStay": (0.0571, 0.1398, 0.675),
    }
    for feature, (reveals, drives, alignment) in printed.items():
        row = rows[feature]
        assert row["reveals"] == pytest.approx(reveals, abs=5e-5)
        assert row["drives"] == pytest.approx(drives, abs=5e-5)
        assert row["alignment"] == pytest.approx(alignment, abs=5e-5 if feature == "Age" else 5e-4)
        assert row["alone"] == pytest.approx(row["alignment"] * row["reveals"] * row["drives"], abs=1e-12)


def test_points_of_the_gap_against_regressions_with_dummies():
    """The group's coefficient with and without a feature, by plain least squares on the rows of the extract."""
    _, audited, codes, models = rows()
    omega = 0.5 * np.where(audited, 1 / audited.sum(), 1 / (~audited).sum())
    table = {row["feature"]: row for row in experiment()["contributions"]}

    def coefficient(*features):
        _, cell = np.unique(codes[:, features], axis=0, return_inverse=True)
        dummies = np.eye(cell.max() + 1)[cell.ravel()]
        design = np.column_stack([audited, dummies]) * np.sqrt(omega)[:, None]
        return np.linalg.lstsq(design, models.scores * np.sqrt(omega), rcond=None)[0][0]

    everything = range(len(COMPAS_FEATURES))
    for j, feature in enumerate(COMPAS_FEATURES):
        assert table[feature]["alone"] == pytest.approx(experiment()["gap"]["value"] - coefficient(j), abs=1e-12)
        others = [k for k in everything if k != j]
        assert table[feature]["beyond_others"] == pytest.approx(
            coefficient(*others) - coefficient(*everything), abs=1e-12
        )


def test_cross_fitted_numbers_are_near_the_plug_in_ones_and_have_intervals():
    honest = paper_experiment().cross_fitted["African-American"].to_dict()
    assert honest["correction"]["descent_rate"]["low"] < -0.58 < honest["correction"]["descent_rate"]["high"]
    assert honest["correction"]["descent_rate"]["value"] == pytest.approx(-0.58, abs=0.04)
    verdicts = {row["feature"]: row["verdict"] for row in honest["contributions"]}
    assert verdicts["PriorCounts"] == verdicts["Age"] == "potential proxy"
    assert "potential proxy" not in verdicts["LengthOfStay"]


def test_shares_at_the_ends_of_the_dial_are_those_of_score_and_log_odds():
    _, audited, codes, models = rows()
    table = {row["feature"]: row for row in experiment()["contributions"]}
    for j, feature in enumerate(COMPAS_FEATURES):
        own = codes[audited, j]
        for name, column in (("share_inputs", models.log_odds[audited]), ("share_outputs", models.scores[audited])):
            means = [column[own == value].mean() for value in own]
            assert table[feature][name] == pytest.approx(np.var(means) / np.var(column))


def test_cells_without_reference_rows_are_those_of_the_erratum():
    data, audited, _, _ = rows()
    cells = data.select(COMPAS_FEATURES).with_columns(pl.Series("audited", audited)).group_by(COMPAS_FEATURES)
    counts = cells.agg(n0=pl.col("audited").sum(), n1=(~pl.col("audited")).sum())
    empty = counts.filter(pl.col("n1") == 0)
    assert (len(empty), empty["n0"].sum()) == (12, 32)


def test_other_encodings_give_other_numbers():
    """Ridge, one-hot codes and the other outcome, as facts about the experiment."""
    data, audited, codes, _ = rows()

    def rate(features, outcome, **options):
        def fit(target):
            return LogisticRegression(tol=1e-10, max_iter=2000, **options).fit(features, target)

        scores = fit(outcome).predict_proba(features)[:, 1]
        log_odds = fit(audited).decision_function(features)
        f = corrections(log_odds, scores, audited)
        return f.descent_rate, scores[audited].mean(), scores[~audited].mean()

    one_hot = np.hstack([(codes[:, [j]] == np.arange(1, 3)).astype(float) for j in range(5)])
    one_hot = one_hot[:, one_hot.any(axis=0)]
    is_recid, two_year = data["is_recid"].to_numpy(), data["two_year_recid"].to_numpy()
    assert rate(codes, is_recid, C=1.0)[0] == pytest.approx(-0.623, abs=5e-4)
    assert rate(one_hot, is_recid, C=np.inf)[0] == pytest.approx(-0.657, abs=5e-4)
    assert rate(codes, two_year, C=np.inf)[1:] == (pytest.approx(0.511, abs=5e-4), pytest.approx(0.409, abs=5e-4))


def test_a_solver_that_stops_short_is_polished_without_a_word(monkeypatch):
    data, audited, _, columns = rows()

    def hurried(**options):
        return LogisticRegression(**options | {"max_iter": 8})

    monkeypatch.setattr("sklearn.linear_model.LogisticRegression", hurried)  # warns, and a warning is an error here
    found = logistic_log_odds(encode_features(data, COMPAS_FEATURES), audited)
    assert found == pytest.approx(columns.log_odds, abs=1e-8)
