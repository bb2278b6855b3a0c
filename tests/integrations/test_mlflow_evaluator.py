"""MLflow's evaluator, with a local file store: numbers, JSON and page of the audit are in the run."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tiltlens as tl
from tiltlens.errors import DataError

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore")]  # MLflow has warnings of its own


@pytest.fixture
def mlflow(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    mlflow = pytest.importorskip("mlflow")
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as registry

    from tiltlens._integrations.mlflow_evaluator import TiltlensEvaluator

    registry.register("tiltlens", TiltlensEvaluator)  # as the entry point does
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    return mlflow


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    women = rng.random(400) < 0.5
    income = rng.normal(size=400) - 0.8 * women
    repaid = (rng.random(400) < 1 / (1 + np.exp(-income))).astype(int)
    return pd.DataFrame({"sex": np.where(women, "women <3", "men"), "income": income, "repaid": repaid})


CONFIG = {"group": "sex", "reference": "men"}


def test_a_model_is_audited_and_logged(mlflow, people, tmp_path):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(people[["income"]], people["repaid"])

    def scored(table):
        return model.predict_proba(table[["income"]])[:, 1]

    with mlflow.start_run() as run:
        found = mlflow.models.evaluate(
            scored, people, targets="repaid", model_type="classifier", evaluators="tiltlens", evaluator_config=CONFIG
        )
    scores = model.predict_proba(people[["income"]])[:, 1]
    expected = tl.audit(people.drop(columns="repaid"), scores=scores, outcome=people["repaid"].to_numpy(), **CONFIG)
    gap = scores[people["sex"] != "men"].mean() - scores[people["sex"] == "men"].mean()
    name = "tiltlens.women _3.gap"
    assert found.metrics[name] == pytest.approx(gap, abs=1e-12)
    logged = mlflow.get_run(run.info.run_id).data.metrics
    assert logged[name] == found.metrics[name]
    assert logged[f"{name}_low"] == pytest.approx(expected["women <3"].gap.low, abs=1e-9)
    assert "tiltlens.women _3.fpr_difference" in logged  # labels are the outcomes
    saved = mlflow.artifacts.download_artifacts(
        run_id=run.info.run_id, artifact_path="tiltlens", dst_path=str(tmp_path)
    )
    assert tl.read_audit(f"{saved}/audit.json")["women <3"].gap.value == pytest.approx(gap, abs=1e-12)
    assert '<h1 class="answer">' in Path(saved, "audit.html").read_text()
    assert found.artifacts["tiltlens_audit"].content["schema"] == "tiltlens/audit/3"


@pytest.mark.parametrize("has_signature", [False, True])
def test_a_logged_model_is_not_asked_with_the_group(mlflow, people, has_signature):
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(people[["income"]], people["repaid"])
    example = {"input_example": people[["income"]].head(3)} if has_signature else {}
    with mlflow.start_run():
        logged = mlflow.sklearn.log_model(model, name="model", pyfunc_predict_fn="predict_proba", **example)
        found = mlflow.models.evaluate(
            logged.model_uri,
            people,
            targets="repaid",
            model_type="classifier",
            evaluators="tiltlens",
            evaluator_config=CONFIG | {"features": []},
        )
    scores = model.predict_proba(people[["income"]])[:, 1]
    gap = scores[people["sex"] != "men"].mean() - scores[people["sex"] == "men"].mean()
    assert found.metrics["tiltlens.women _3.gap"] == pytest.approx(gap, abs=1e-12)


def test_predictions_of_a_table_and_amounts(mlflow, people):
    table = people.assign(premium=100 + 10 * people["income"]).drop(columns="repaid")
    with mlflow.start_run():
        found = mlflow.models.evaluate(
            data=table.assign(paid=table["premium"]),
            predictions="premium",
            targets="paid",
            model_type="regressor",
            evaluators=["tiltlens"],
            evaluator_config={"tiltlens": CONFIG | {"favourable": "low", "folds": None}},
        )
    means = table.groupby("sex")["premium"].mean()
    assert found.metrics["tiltlens.women _3.gap"] == pytest.approx(means["women <3"] - means["men"], abs=1e-9)


def test_users_who_did_not_ask_are_left_alone_and_mistakes_are_named(mlflow, people):
    from tiltlens._integrations.mlflow_evaluator import TiltlensEvaluator

    assert not TiltlensEvaluator.can_evaluate(model_type="classifier", evaluator_config={})
    assert not TiltlensEvaluator.can_evaluate(model_type="classifier", evaluator_config=None)
    with mlflow.start_run(), pytest.raises(DataError, match=r"'refrence'(.|\n)*did you mean reference\?"):
        mlflow.models.evaluate(
            data=people.assign(score=0.5),
            predictions="score",
            targets="repaid",
            model_type="classifier",
            evaluators="tiltlens",
            evaluator_config={"group": "sex", "refrence": "men"},
        )
