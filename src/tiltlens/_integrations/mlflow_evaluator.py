"""MLflow evaluator: `mlflow.models.evaluate(…, evaluators="tiltlens")` logs an audit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeAlias

from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact, TextEvaluationArtifact
from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator
from mlflow.tracking import MlflowClient

from tiltlens.errors import DataError, nearest_name, quoted

if TYPE_CHECKING:
    from tiltlens._results.audit import Audit

Untyped: TypeAlias = Any  # of MLflow, or an argument of tl.audit
FOLDER = "tiltlens"  # among the run's artifacts
JSON, PAGE = "audit.json", "audit.html"
NOT_IN_NAMES = re.compile(r"[^\w\-. /]")  # characters that MLflow does not allow in names of metrics
BINARY = 2
# Arguments of tl.audit whose columns are not inputs of the model
ROLES = ("group", "known_groups", "sample_weight", "clusters", "periods", "propensity", "exclude", "outcome")


# MLflow may be absent when types are checked, so its base class is Any.
class TiltlensEvaluator(ModelEvaluator):  # type: ignore[misc]
    """Audit the model's predictions; `evaluator_config` holds arguments of `tl.audit`, at least `group`.

    Labels with two values are used as observed outcomes. Estimates and the limits of their intervals are logged as
    metrics, and `tiltlens/audit.json` and `tiltlens/audit.html` as artifacts.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: Mapping[str, Untyped], **kwargs: Untyped) -> bool:
        """Return whether a group is named, so that other evaluations are skipped."""
        return "group" in (evaluator_config or {})

    def evaluate(
        self,
        *,
        model_type: str,
        dataset: Untyped,
        run_id: str,
        evaluator_config: Mapping[str, Untyped],
        model: Untyped = None,
        **kwargs: Untyped,
    ) -> EvaluationResult:
        """Audit the predictions, and log metrics and artifacts to the run."""
        from tiltlens._pipeline import audit
        from tiltlens._render.page import check_report

        options = _check_config(evaluator_config)
        check_report(PAGE)
        result = audit(dataset.features_data, **_arguments(dataset, model, model_type, options))
        client = MlflowClient()
        metrics = _metrics(result)
        for name, value in metrics.items():
            client.log_metric(run_id, name, value)
        return EvaluationResult(metrics, _log_files(client, run_id, result), run_id)


def _check_config(config: Mapping[str, Untyped]) -> dict[str, Untyped]:
    """Return the configuration; raise if a key is not an argument of `tl.audit`."""
    from tiltlens._pipeline import audit

    parameters = [
        name for name in signature(audit).parameters if name not in ("data", "positional", "model", "progress")
    ]
    for name in config:
        if name not in parameters:
            nearest = nearest_name(name, parameters)
            raise DataError(
                f"{quoted(name)} is not an argument of tl.audit (`evaluator_config`).",
                f"{'' if nearest is None else f'did you mean {nearest}? '}The arguments are {', '.join(parameters)}.",
            )
    return dict(config)


def _arguments(dataset: Untyped, model: Untyped, model_type: str, options: dict[str, Untyped]) -> dict[str, Untyped]:
    """Return the arguments of the audit; the configuration takes precedence over those that MLflow implies."""
    implied: dict[str, Untyped] = {}
    if "scores" not in options:
        data = dataset.features_data
        implied["scores"] = (
            dataset.predictions_data if model is None else model.predict(_model_inputs(data, model, options))
        )
    if model_type == "regressor":
        implied["score_type"] = "amount"
    elif dataset.has_targets and len(set(dataset.labels_data)) == BINARY:
        implied["outcome"] = dataset.labels_data
    return implied | options


def _model_inputs(data: Untyped, model: Untyped, options: Mapping[str, Untyped]) -> Untyped:
    """Return the inputs of the model: all columns if it has a signature, else those without another role."""
    metadata = getattr(model, "metadata", None)
    if metadata is None or metadata.get_input_schema() is not None or not hasattr(data, "columns"):
        return data
    named = [value if isinstance(value, list) else [value] for value in map(options.get, ROLES)]
    taken = {name for columns in named for name in columns if isinstance(name, str)}
    return data[[name for name in data.columns if name not in taken]]


def _metrics(result: Audit) -> dict[str, float]:
    """Return the estimates and the limits of their intervals, by group."""
    from tiltlens._results.comparison import ESTIMATES

    metrics = {}
    for group, comparison in result.items():
        for quantity in ESTIMATES:
            estimate = comparison.estimate(quantity)
            for end, value in ({} if estimate is None else estimate.to_dict()).items():
                if value is not None:
                    suffix = "" if end == "value" else f"_{end}"
                    metrics[f"tiltlens.{NOT_IN_NAMES.sub('_', group)}.{quantity}{suffix}"] = float(value)
    return metrics


def _log_files(client: MlflowClient, run_id: str, result: Audit) -> dict[str, Untyped]:
    """Log the JSON and the report as files of the run, and return them as artifacts."""
    from tiltlens._render.page import page

    folder_uri = f"{client.get_run(run_id).info.artifact_uri}/{FOLDER}"
    with TemporaryDirectory() as folder:
        result.to_json(Path(folder) / JSON)
        Path(folder, PAGE).write_text(text := page(result), encoding="utf-8")
        client.log_artifacts(run_id, folder, FOLDER)
    return {
        "tiltlens_audit": JsonEvaluationArtifact(f"{folder_uri}/{JSON}", result.to_dict()),
        "tiltlens_report": TextEvaluationArtifact(f"{folder_uri}/{PAGE}", text),
    }
