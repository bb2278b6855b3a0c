from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from tiltlens.datasets import COMPAS_FEATURES, COMPAS_LABELS, load_compas

COLUMNS = {
    "race": pl.Enum(["African-American", "Caucasian"]),
    "Age": pl.Enum(["<25", "25 to 45", ">45"]),
    "ChargeDegree": pl.Enum(["Misdemeanor", "Felony"]),
    "Sex": pl.Enum(["Female", "Male"]),
    "PriorCounts": pl.Enum(["0", "1 to 3", ">3"]),
    "LengthOfStay": pl.Enum(["<week", "<3 months", ">3 months"]),
    "Age_code": pl.Int8,
    "ChargeDegree_code": pl.Int8,
    "Sex_code": pl.Int8,
    "PriorCounts_code": pl.Int8,
    "LengthOfStay_code": pl.Int8,
    "age_years": pl.Int32,
    "priors_count": pl.Int32,
    "days_in_jail": pl.Int32,
    "is_recid": pl.Int8,
    "two_year_recid": pl.Int8,
}


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    return load_compas()


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parents[2] / "scripts" / "derive_compas.py"
    spec = importlib.util.spec_from_file_location("derive_compas", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def invented_raw(**changes: object) -> dict[str, object]:
    person: dict[str, object] = {
        "name": "nobody",
        "sex": "Female",
        "age": 45,
        "age_cat": "Greater than 45",
        "race": "Caucasian",
        "priors_count": 3,
        "days_b_screening_arrest": 30,
        "c_jail_in": "2013-01-01 12:30:00",
        "c_jail_out": "2013-01-09 12:29:59",
        "c_charge_degree": "M",
        "is_recid": 0,
        "score_text": "Low",
        "two_year_recid": 0,
    }
    return person | changes


def unpenalised(features: np.ndarray, outcome: np.ndarray) -> LogisticRegression:
    return LogisticRegression(C=np.inf, max_iter=1000, tol=1e-10).fit(features, outcome)


def fitted(people: pl.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return who is audited, log P0/P1 and the predicted `is_recid`."""
    features = people.select(f"{name}_code" for name in COMPAS_FEATURES).to_numpy().astype(float)
    audited = (people["race"] == "African-American").to_numpy()
    odds = audited.mean() / (1 - audited.mean())
    log_odds = unpenalised(features, audited).decision_function(features) - np.log(odds)
    score = unpenalised(features, people["is_recid"].to_numpy()).predict_proba(features)[:, 1]
    return audited, log_odds, score


def test_group_sizes_against_paper(people: pl.DataFrame) -> None:
    sizes = dict(people.group_by("race").len().rows())
    assert sizes == {"African-American": 3175, "Caucasian": 2103}


def test_columns_are_exactly_those_of_the_analysis(people: pl.DataFrame) -> None:
    assert list(people.schema.items()) == list(COLUMNS.items())


def test_no_value_is_missing(people: pl.DataFrame) -> None:
    assert sum(people.null_count().row(0)) == 0


def test_outcomes_are_binary_and_two_years_imply_ever(people: pl.DataFrame) -> None:
    assert set(people["is_recid"]) == set(people["two_year_recid"]) == {0, 1}
    assert (people["two_year_recid"] <= people["is_recid"]).all()


@pytest.mark.parametrize("feature", COMPAS_FEATURES)
def test_codes_equal_positions_of_labels(people: pl.DataFrame, feature: str) -> None:
    labels = COMPAS_LABELS[feature]
    assert set(people[feature]) == set(labels)
    assert people[f"{feature}_code"].to_list() == [labels.index(label) for label in people[feature]]


@pytest.mark.parametrize(
    ("feature", "number", "largest_of_first", "largest_of_second"),
    [
        ("Age", "age_years", 24, 44),  # ProPublica puts people aged 45 in "Greater than 45"
        ("PriorCounts", "priors_count", 0, 3),
        ("LengthOfStay", "days_in_jail", 7, 93),
    ],
)
def test_codes_equal_binned_numbers(
    people: pl.DataFrame, feature: str, number: str, largest_of_first: int, largest_of_second: int
) -> None:
    expected = np.searchsorted([largest_of_first, largest_of_second], people[number])
    np.testing.assert_array_equal(people[f"{feature}_code"], expected)


def test_numbers_lie_in_possible_ranges(people: pl.DataFrame) -> None:
    assert people["age_years"].is_between(18, 100).all()
    assert people["priors_count"].is_between(0, 100).all()
    assert people["days_in_jail"].is_between(0, 1000).all()


def test_labels_are_features_in_order() -> None:
    assert list(COMPAS_LABELS) == COMPAS_FEATURES == ["Age", "ChargeDegree", "Sex", "PriorCounts", "LengthOfStay"]


def test_file_is_small() -> None:
    assert len((files("tiltlens.datasets") / "compas.parquet").read_bytes()) < 100_000


def test_output_means_against_paper(people: pl.DataFrame) -> None:
    audited, _, score = fitted(people)
    assert round(score[audited].mean(), 5) == 0.54342
    assert round(score[~audited].mean(), 5) == 0.43825


def test_descent_rate_against_reference(people: pl.DataFrame) -> None:
    audited, log_odds, score = fitted(people)
    p, q = score[audited].mean(), score[~audited].mean()
    slope = np.log(p / (1 - p)) - np.log(q / (1 - q))
    descent_rate = -np.std((log_odds + slope * score)[audited])
    assert round(descent_rate, 5) == -0.62449


def test_script_refuses_a_file_with_another_hash(refused, script: ModuleType, tmp_path: Path) -> None:
    raw, out = tmp_path / "raw.csv", tmp_path / "out.parquet"
    raw.write_text("race,age\nCaucasian,45\n")
    with refused(SystemExit):
        script.main([str(raw), str(out)])
    assert not out.exists()


def test_script_refuses_a_missing_file(script: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    with pytest.raises(SystemExit, match="No such file"):
        script.main([str(tmp_path / "absent.csv"), str(out)])
    assert not out.exists()


def test_script_reads_the_first_of_two_equal_columns(script: ModuleType, tmp_path: Path) -> None:
    raw = tmp_path / "raw.csv"
    raw.write_text("priors_count,age,priors_count\n3,45,99\n")
    assert script.read_raw(raw)["priors_count"].to_list() == [3]


@pytest.mark.parametrize(
    "left_out",
    [
        {"days_b_screening_arrest": 31},
        {"days_b_screening_arrest": -31},
        {"days_b_screening_arrest": None},
        {"is_recid": -1},
        {"c_charge_degree": "O"},
        {"score_text": "N/A"},
        {"race": "Hispanic"},
    ],
)
def test_script_filters_as_propublica(script: ModuleType, left_out: dict[str, object]) -> None:
    raw = pl.DataFrame([invented_raw(), invented_raw(**left_out)])
    assert script.extract(raw).height == 1


def test_script_encodes_an_invented_person(script: ModuleType) -> None:
    extract = script.extract(pl.DataFrame([invented_raw()]))
    assert extract.columns == list(COLUMNS)
    assert extract.row(0) == (
        *("Caucasian", ">45", "Misdemeanor", "Female", "1 to 3", "<week"),
        *(2, 0, 0, 1, 0),
        *(45, 3, 7),
        *(0, 0),
    )


@pytest.mark.parametrize(
    ("jail_out", "days", "label"),
    [
        ("2013-01-01 06:00:00", 0, "<week"),  # before the entry: a 12-hour clock without am or pm
        ("2013-01-09 12:30:00", 8, "<3 months"),
        ("2013-04-05 12:29:59", 93, "<3 months"),
        ("2013-04-05 12:30:00", 94, ">3 months"),
    ],
)
def test_script_counts_whole_days(script: ModuleType, jail_out: str, days: int, label: str) -> None:
    extract = script.extract(pl.DataFrame([invented_raw(c_jail_out=jail_out)]))
    assert extract.select("days_in_jail", "LengthOfStay").row(0) == (days, label)
