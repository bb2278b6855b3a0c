"""Name the results that `frozen.py` records: audits, changes, repairs, alternatives, rule tables, gates, commands.

Each case is a function without arguments. Names that begin with `huge_` run only with `--huge`. For the names in
`PAGES` the report page, its figures and the notebook view are recorded too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import polars as pl

import frozen_tables as tables
import tiltlens as tl
from frozen_tables import CLASSES, make_lending, make_lending_pair, make_loans, make_people
from tiltlens._gates import assert_gate
from tiltlens.datasets import COMPAS_FEATURES

FEATURES = ["income", "age", "children", "city", "owner", "since", "seen", "grade", "branch", "person"]
NUMBERS = ["age", "children"]
LENDING = ["region", "job", "amount", "years"]
LOANS = ["income", "club", "region"]
GROUP_PROBABILITIES = {"women": "p_women", "men": "p_men"}
OTHER_SETTINGS = {"confidence": 0.8, "materiality": 0.02, "random_state": 7}
EXCLUDED = ["group_or_missing", "p_women", "p_men", "region", "old_score", "decision", "answer", "repaid", "premium"]
EXCLUDED += ["customer", "month", "weight", "product", "branch"]
THREE = {"scores": CLASSES, "favourable": "some"}
WEIGHTED = {"sample_weight": "weight"}


def audit_compas(data: Any = None, **options: Any) -> tl.Audit:
    """Audit the COMPAS records."""
    defaults: dict[str, Any] = {"reference": "Caucasian", "favourable": "low", "features": list(COMPAS_FEATURES)}
    return tl.audit(tables.make_compas() if data is None else data, "race", **defaults | {"scores": "score"} | options)


def audit_people(data: Any, **options: Any) -> tl.Audit:
    """Audit every kind of feature."""
    return tl.audit(data, "group", **{"reference": "B", "scores": "score", "features": FEATURES} | options)


def audit_lending(data: Any = None, **options: Any) -> tl.Audit:
    """Audit group a against b."""
    defaults: dict[str, Any] = {"reference": "b", "audited": "a", "features": LENDING, "scores": "score"}
    return tl.audit(make_lending_pair() if data is None else data, "group", **defaults | options)


def audit_loans(data: Any = None, group: Any = "group", **options: Any) -> tl.Audit:
    """Audit women against men."""
    defaults: dict[str, Any] = {"reference": "men", "features": LOANS}
    defaults["scores"] = None if "model" in options else "score"
    return tl.audit(make_loans() if data is None else data, group, **defaults | options)


def audit_unobserved(**options: Any) -> tl.Audit:
    """Audit groups that are given as probabilities."""
    return audit_loans(None, GROUP_PROBABILITIES, **options)


def audit_copy_of_the_group() -> tl.Audit:
    """Audit a feature that is the group under another name."""
    copied = pl.when(group="A").then(pl.lit("red")).otherwise(pl.lit("blue"))
    return audit_people(make_people().with_columns(copy=copied), features=["income", "city", "copy"])


def audit_fitted_model(columns: Sequence[str] = ("age", "children")) -> tl.Audit:
    """Audit a fitted scikit-learn model."""
    from sklearn.linear_model import LogisticRegression

    frame = tables.convert_to_pandas(make_people())
    model = LogisticRegression().fit(frame[list(columns)], frame["score"] > 0.5)
    return tl.audit(frame, "group", reference="B", model=model, features=list(columns))


def score_people(inputs: Any) -> Any:
    """Return scores of a frame of features."""
    age, children = (np.asarray(inputs[name], dtype=np.float64) for name in NUMBERS)
    return tables.squash(0.04 * (age - 44) + 0.3 * (children - 1))


def score_loan_features(inputs: Any) -> Any:
    """Return the score of loans from a frame of features; `club` is not used."""
    income = np.asarray(inputs["income"], dtype=np.float64)
    return tables.score_loans(income, np.where(np.asarray(inputs["region"]) == "north", 0, 1))


def price_loan_features(inputs: Any) -> Any:
    """Return a premium from a frame of features; `club` is not used."""
    return 400 + 6 * (np.asarray(inputs["income"], dtype=np.float64) - 50)


def audit_membership_estimator(**options: Any) -> tl.Audit:
    """Audit with the user's own membership model."""
    from sklearn.linear_model import LogisticRegression

    frame = make_lending_pair().with_columns(pl.col("amount").fill_null(48.0)).to_pandas()
    features = ["region", "amount", "years"]
    return audit_lending(frame, features=features, propensity=LogisticRegression(), **options)


def audit_arrays() -> tl.Audit:
    """Audit groups, scores and weights that are arrays."""
    frame = make_lending_pair()
    group, scores, weights = (frame[name].to_numpy() for name in ("group", "score", "weight"))
    return tl.audit(frame.select(LENDING), group, reference="b", scores=scores, sample_weight=weights)


def audit_scores_of_zero() -> tl.Audit:
    """Audit a group whose scores are all 0."""
    frame = make_lending_pair().with_columns(score=pl.when(group="a").then(0.0).otherwise("score"))
    return audit_lending(frame, propensity="chance")


def audit_separate_groups() -> tl.Audit:
    """Audit groups that share no values."""
    shift = pl.when(group="a").then(1000).otherwise(0)
    return audit_lending(make_lending_pair().with_columns(amount=pl.col("years") + shift), features=["amount"])


def save_and_read(audit: tl.Audit, name: str) -> tl.Audit:
    """Return an audit after a round trip through JSON."""
    audit.to_json(path := tables.name_file(f"{name}.json"))
    return tl.read_audit(path)


AUDITS: dict[str, Callable[[], tl.Audit]] = {
    "compas_plug_in": lambda: audit_compas(folds=None),
    "compas_cross_fitted": lambda: audit_compas(folds=5),
    "compas_numbers": lambda: audit_compas(features=["age_years", "priors_count", "days_in_jail", "Sex"]),
    "kinds_pandas": lambda: audit_people(tables.convert_to_pandas(make_people())),
    "kinds_polars": lambda: audit_people(make_people()),
    "kinds_polars_plug_in": lambda: audit_people(make_people(), folds=None),
    "kinds_lazy": lambda: audit_people(make_people().lazy()),
    "kinds_pyarrow": lambda: audit_people(make_people().to_arrow()),
    "kinds_dict": lambda: audit_people(tables.convert_to_arrays(make_people())),
    "kinds_parquet": lambda: audit_people(tables.write_parquet(make_people(), "people")),
    "kinds_csv": lambda: audit_people(tables.write_csv(make_people())),
    "kinds_two_parquets": lambda: audit_people(tables.write_two_parquets(make_people()), **WEIGHTED),
    "kinds_duckdb": lambda: audit_people(tables.convert_to_duckdb(make_people())),
    "kinds_spark_fitted": lambda: audit_people(tables.convert_to_spark(make_people(), 1)),
    "kinds_spark_known": lambda: audit_people(
        tables.convert_to_spark(make_people(), 3), propensity="chance", **WEIGHTED
    ),
    "spark_classes_plug_in": lambda: audit_lending(
        tables.convert_to_spark(make_lending_pair(), 3), **THREE, **WEIGHTED, propensity="chance", folds=None
    ),
    "spark_decisions": lambda: audit_lending(
        tables.convert_to_spark(make_lending_pair(), 2), propensity="chance", scores="decision"
    ),
    "kinds_known": lambda: audit_people(make_people(), propensity="chance", **WEIGHTED),
    "kinds_few_rows": lambda: audit_people(make_people(300, 9)),
    "kinds_default_features": lambda: tl.audit(make_people(500, 4), "group", scores="score"),
    "copy_of_the_group": audit_copy_of_the_group,
    "weights_fitted": lambda: audit_lending(**WEIGHTED),
    "weights_known": lambda: audit_lending(**WEIGHTED, propensity="chance"),
    "weights_plug_in": lambda: audit_lending(**WEIGHTED, folds=None),
    "weights_uneven": lambda: audit_people(
        make_people(1200, 3), features=["income", "owner", "grade"], sample_weight="uneven"
    ),
    "classes_fitted": lambda: audit_lending(**THREE),
    "classes_known": lambda: audit_lending(**THREE, propensity="chance", **WEIGHTED),
    "classes_array_plug_in": lambda: audit_lending(
        scores=make_lending_pair().select(CLASSES).to_numpy(), favourable=2, folds=None
    ),
    "decisions": lambda: audit_lending(scores="decision"),
    "threshold": lambda: audit_lending(threshold=0.5),
    "given": lambda: audit_lending(where={"good": True}),
    "intersections": lambda: tl.audit(
        make_people(1500, 6), ["group", "sex"], scores="score", features=["income", "city", "owner", "children"]
    ),
    "several_groups": lambda: audit_lending(make_lending(), audited=None),
    "one_of_several_groups": lambda: audit_lending(make_lending(), audited="c", reference="a"),
    "several_groups_plug_in": lambda: audit_lending(make_lending(), audited=["a", "c"], folds=None),
    "membership_column": lambda: audit_lending(propensity="chance"),
    "membership_column_plug_in": lambda: audit_lending(propensity="chance", folds=None),
    "membership_array": lambda: audit_lending(propensity=make_lending_pair()["chance"].to_numpy()),
    "membership_estimator": audit_membership_estimator,
    "membership_estimator_plug_in": lambda: audit_membership_estimator(folds=None),
    "model_fitted": audit_fitted_model,
    "model_function": lambda: tl.audit(make_people(), "group", reference="B", model=score_people, features=NUMBERS),
    "favourable_low": lambda: audit_lending(favourable="low"),
    "arrays_beside": audit_arrays,
    "input_weight_0": lambda: audit_lending(input_weight=0.0, output_weight=2.0),
    "output_weight_0": lambda: audit_lending(output_weight=0.0),
    "other_settings": lambda: audit_lending(**OTHER_SETTINGS),
    "constant_score": lambda: audit_lending(scores=np.full(make_lending_pair().height, 0.3)),
    "missing_scores_and_groups": lambda: audit_lending(
        tables.make_lending_with_missing_values(), audited=None, **WEIGHTED
    ),
    "tiny_groups": lambda: audit_lending(tables.make_tiny_groups(), reference=None, audited=None),
    "tiny_groups_known": lambda: audit_lending(
        tables.make_tiny_groups(), reference="most", audited="fourteen", propensity="chance"
    ),
    "out_of_reach": audit_scores_of_zero,
    "error_apart": audit_separate_groups,
    "error_no_such_column": lambda: audit_lending(features=["regoin"]),
    "error_membership_of_several": lambda: audit_lending(make_lending(), audited=None, propensity="chance"),
    "large_pandas_fitted": lambda: audit_lending(tables.convert_to_pandas(make_lending(60_000, 8))),
    "large_membership_column": lambda: audit_lending(make_lending(60_000, 8), propensity="chance"),
    "large_parquet_fitted": lambda: audit_lending(
        tables.write_parquet(make_lending(60_000, 8), "large"), random_state=1
    ),
    "huge_spark_fitted": lambda: audit_lending(tables.convert_to_spark(make_lending(520_000, 8), 4)),  # is sampled
    "huge_membership_column": lambda: audit_lending(make_lending(5_000_000, 8), propensity="chance"),  # in batches
    "amounts": lambda: audit_loans(scores="premium", score_type="amount", favourable="low"),
    "amounts_weights_clusters": lambda: audit_loans(
        scores="premium", score_type="amount", **WEIGHTED, clusters="customer"
    ),
    "amounts_model": lambda: audit_loans(model=price_loan_features, score_type="amount", favourable="low"),
    "outcome_scores": lambda: audit_loans(outcome="repaid"),
    "outcome_decisions": lambda: audit_loans(scores="decision", outcome="repaid", **WEIGHTED),
    "outcome_fpr": lambda: audit_loans(threshold=0.5, outcome="repaid", metric="fpr"),
    "outcome_fnr": lambda: audit_loans(outcome="repaid", metric="fnr"),
    "exempt": lambda: audit_loans(exempt=["income"]),
    "exempt_decisions": lambda: audit_loans(scores="decision", exempt=["income", "club"], outcome="repaid"),
    "clusters": lambda: audit_loans(clusters="customer"),
    "periods": lambda: audit_loans(periods="month"),
    "periods_clusters_threshold": lambda: audit_loans(periods="month", clusters="customer", threshold=0.5),
    "unobserved": audit_unobserved,
    "unobserved_labels": lambda: audit_unobserved(known_groups="group_or_missing"),
    "unobserved_decisions_outcome": lambda: audit_unobserved(scores="decision", outcome="repaid"),
    "unobserved_amounts": lambda: audit_unobserved(scores="premium", score_type="amount"),
    "given_text": lambda: audit_loans(where={"product": "car", "region_n": 0}, features=["income", "club", "region"]),
    "blocks": lambda: audit_loans(features=None, blocks={"place": ["region_*"]}, exclude=EXCLUDED),
    "categorical": lambda: audit_loans(features=["income", "branch"], categorical="branch"),
    "model_stand_in": lambda: audit_loans(model=score_loan_features),
    "model_stand_in_threshold": lambda: audit_loans(model=score_loan_features, threshold=0.5, outcome="repaid"),
    "threshold_favourable_low": lambda: audit_loans(threshold=0.6, favourable="low", **WEIGHTED),
    "decisions_in_words": lambda: audit_loans(scores="answer", favourable="approved", outcome="repaid"),
    "no_features": lambda: audit_loans(features=[], outcome="repaid"),
    "stated_provenance": lambda: audit_loans(provenance={"data window": "2024", "model": "loans 2"}, folds=None),
    "sampled": lambda: audit_lending(make_lending(6_000, 8), sample_rows=2_000),
    "source_csv_options": lambda: audit_loans(
        tl.read(tables.write_foreign_csv(make_loans()), encoding="cp1252", decimal=",", na_values="unbekannt")
    ),
    "source_json_lines": lambda: audit_loans(tables.write_json_lines(make_loans())),
    "source_excel": lambda: audit_loans(tl.read(tables.write_excel(make_loans()), sheet="loans")),
    "source_sqlite": lambda: audit_loans(tl.read(tables.write_sqlite(make_loans()), query="SELECT * FROM loans")),
    "saved_scores": lambda: save_and_read(audit_loans(outcome="repaid", periods="month"), "saved_scores"),
    "saved_unobserved": lambda: save_and_read(audit_unobserved(known_groups="group_or_missing"), "saved_unobserved"),
}
PAGES = {"compas_cross_fitted", "outcome_decisions", "amounts", "unobserved_labels", "classes_fitted", "exempt"}
PAGES |= {"several_groups", "periods_clusters_threshold", "outcome_fpr", "model_stand_in", "saved_scores"}
PAGES |= {
    "change_same_rows",
    "repair_price",
    "repair_price_of_blindness",
    "repair_several_groups",
    "alternatives_model",
}
PAGES |= {"repair_price", "rule_four_fifths", "rule_local_law_scores"}


def split_loans(rows: int = 1_600) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return loans to audit and loans that are held out, without common customers."""
    loans = make_loans(rows, 12)
    return loans.filter(pl.col("customer") % 2 == 0), loans.filter(pl.col("customer") % 2 == 1)


def repair_loans(
    audit_rows: Callable[[pl.DataFrame], tl.Audit] = lambda data: audit_loans(data, outcome="repaid", folds=None),
    **options: Any,
) -> dict[str, Any]:
    """Return a repair of loans, the scores that it gives to held-out loans, and its evaluation on these."""
    audited_rows, held_out = split_loans()
    tilt = audit_rows(audited_rows)["women"].repair(**options)
    applied = tilt.apply(held_out, "score", **({"group": "group"} if tilt.use_group else {}))
    evaluation = tilt.evaluate(held_out, "score", "group", outcome="repaid")
    return {"repair": tilt, "applied": applied, "evaluation": evaluation}


def compare_repairs_with_and_without_group() -> dict[str, Any]:
    """Return the evaluation of a repair, compared with the same repair that uses the group."""
    audited_rows, held_out = split_loans()
    comparison = audit_loans(audited_rows, folds=None)["women"]
    blind, aware = (comparison.repair(max_gap=0.01, use_group=use_group) for use_group in (False, True))
    evaluation = blind.evaluate(held_out, "score", "group", outcome="repaid", compare_with=aware, **WEIGHTED)
    return {"repair": blind, "half": blind.part(0.5), "evaluation": evaluation}


def price_loans() -> dict[str, Any]:
    """Return the audit of a premium with observed costs, its discrimination-free price, and the price's effect."""
    cost = pl.col("premium") * pl.when(group="women").then(0.8).otherwise(1.1) + 40 * pl.col("club")
    audited_rows, held_out = (part.with_columns(cost=cost) for part in split_loans())
    settings = {"scores": "premium", "score_type": "amount", "favourable": "low", "outcome": "cost"}
    audit = audit_loans(audited_rows, folds=None, sample_weight="weight", where={"product": "car"}, **settings)
    price = audit["women"].repair()
    price.to_json(path := tables.name_file("price.json"))
    evaluation = price.evaluate(held_out, "premium", "group", "cost", **WEIGHTED)
    applied = tl.read_repair(path).apply(held_out, "premium")
    return {"audit": audit, "repair": price, "applied": applied, "evaluation": evaluation}


def repair_several_groups() -> dict[str, Any]:
    """Return a repair for all groups at once, with an evaluation for each."""
    lending = make_lending(3_000, 9)
    tilt = audit_lending(lending.head(1_500), reference="a", audited=None, folds=None).repair(max_gap=0.01)
    held_out = lending.slice(1_500)
    evaluations = tilt.evaluate_groups(held_out, "score", "group")
    return {"repair": tilt, "applied": tilt.apply(held_out, "score"), "evaluation": evaluations}


def repair_classes() -> dict[str, Any]:
    """Return a repair of three classes, with an evaluation for one of them."""
    lending = make_lending_pair(3_000)
    tilt = audit_lending(lending.head(1_100), **THREE, folds=None)["a"].repair()
    held_out = lending.slice(1_100)
    evaluation = tilt.evaluate(held_out, CLASSES, "group", score_class=1)
    return {"repair": tilt, "applied": tilt.apply(held_out, CLASSES), "evaluation": evaluation}


def repair_with_estimator() -> dict[str, Any]:
    """Return a repair whose membership model is a tree, without the model: skops never writes the same bytes twice."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.tree import DecisionTreeClassifier

    model = make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=3, random_state=0))
    audited_rows, held_out = split_loans()
    tilt = audit_loans(audited_rows, features=["income", "club"], folds=None)["women"].repair(propensity_model=model)
    evaluation = tilt.evaluate(held_out, "score", "group")
    return {"summary": tilt.summary(), "applied": tilt.apply(held_out, "score"), "evaluation": evaluation}


def save_and_read_repair() -> dict[str, Any]:
    """Return a repair after a round trip through JSON, and the table that it writes."""
    audited_rows, held_out = split_loans()
    path, out = tables.name_file("repair.json"), tables.name_file("repaired.csv")
    audit_loans(audited_rows, folds=None)["women"].repair().to_json(path)
    tilt = tl.read_repair(path)
    tilt.apply(tables.write_csv(held_out, "held_out"), "score", out=out)
    return {"repair": tilt, "written": pl.read_csv(out).head(20)}


def fit_tilted_classifier(**options: Any) -> dict[str, Any]:
    """Return a classifier's constraints, its probabilities and classes of new rows, and its evaluation."""
    old, new = split_loans()
    columns, new_columns = (part.select("income", "club").to_numpy() for part in (old, new))
    model = tl.TiltedClassifier(reference="men", **options)
    model.fit(columns, old["repaid"].to_numpy(), sensitive_features=old["group"].to_numpy())
    return {
        "text": repr(model),
        "constraints": list(model.constraints_),
        "probabilities": model.predict_proba(new_columns)[:, 1],
        "classes": model.predict(new_columns).astype(float),
        "evaluation": model.evaluate(new_columns, new["repaid"].to_numpy(), new["group"].to_numpy()),
    }


@cache
def audit_once(name: str) -> tl.Audit:
    """Return one of the named audits, which several cases share."""
    return AUDITS[name]()


def compare_loans(**options: Any) -> tl.Change:
    """Return the change between two models on the same rows."""
    return tl.compare(audit_loans(scores="old_score", **options), audit_loans(**options))


def compare_months(save: bool = False) -> tl.Change:
    """Return the change between two halves of a year: different rows, live or saved."""
    halves = [
        make_loans(1_600, 13).filter(part) for part in (pl.col("month") < "2024-04", pl.col("month") >= "2024-04")
    ]
    audits = [audit_loans(half, outcome="repaid", threshold=0.5) for half in halves]
    if save:
        audits = [save_and_read(audit, f"half_{number}") for number, audit in enumerate(audits)]
    return tl.compare(*audits)


def check_gates(result: tl.Audit | tl.Change, *conditions: str) -> dict[str, str]:
    """Return, for each condition, that the gate passed, or the message with which it failed or was refused."""
    messages = dict.fromkeys(conditions, "passed")
    for condition in conditions:
        try:
            assert_gate(result, condition)
        except (AssertionError, tl.TiltlensError) as error:
            messages[condition] = str(error)
    return messages


GATES = (
    "gap<-0.05",
    "gap.high>0.2",
    "adjusted_gap.low<-0.01",
    "potential_proxies>0",
    "stand_ins>0",
    "undecided>1",
    "too_small>0",
)
GATES += ("adverse_impact_ratio<0.8", "impact_ratio.low<0.9", "fpr_difference>0.02", "gap>5", "gap=3")


def run_command(*arguments: str) -> dict[str, Any]:
    """Return the exit code and the output of `tiltlens` with these arguments."""
    from click.testing import CliRunner

    from tiltlens._cli import main

    result = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(main, list(arguments))
    output = json.loads(result.stdout) if result.stdout.startswith("{") else result.stdout.splitlines()
    return {"exit_code": result.exit_code, "stdout": output, "stderr": result.stderr.splitlines()}


def run_on_loans(command: str, *arguments: str) -> dict[str, Any]:
    """Return what a command prints about the loans in a CSV file."""
    return run_command(command, tables.write_csv(make_loans(), "loans"), *arguments)


STRATIFIED = ("--rule", "four-fifths", "--group", "group", "--group", "region", "--selected", "answer")
STRATIFIED += ("--favourable", "approved", "--strata", "product")
OF_LOANS = ("--group", "group", "--reference", "men", "--features", "income", "--features", "region")

OTHERS: dict[str, Callable[[], Any]] = {
    "change_same_rows": lambda: compare_loans(outcome="repaid"),
    "change_same_rows_decisions": lambda: compare_loans(threshold=0.5, **WEIGHTED),
    "change_same_customers": lambda: compare_loans(clusters="customer"),
    "change_unobserved": lambda: tl.compare(audit_unobserved(scores="old_score"), audit_unobserved()),
    "change_other_rows": compare_months,
    "change_saved": lambda: compare_months(save=True),
    "repair_mean_score": repair_loans,
    "repair_limit": lambda: repair_loans(max_gap=0.02),
    "repair_use_group": lambda: repair_loans(use_group=True),
    "repair_decisions": lambda: repair_loans(threshold=0.5),
    "repair_fpr": lambda: repair_loans(metric="fpr"),
    "repair_equalized_odds": lambda: repair_loans(metric="equalized_odds", max_gap=0.01),
    "repair_exempt": lambda: repair_loans(lambda data: audit_loans(data, exempt=["region"], folds=None)),
    "repair_given": lambda: repair_loans(
        lambda data: audit_loans(data, where={"product": "car"}, favourable="low", folds=None)
    ),
    "repair_unobserved": lambda: repair_loans(lambda data: audit_loans(data, GROUP_PROBABILITIES, folds=None)),
    "repair_price_of_blindness": compare_repairs_with_and_without_group,
    "repair_price": price_loans,
    "repair_several_groups": repair_several_groups,
    "repair_classes": repair_classes,
    "repair_estimator": repair_with_estimator,
    "repair_saved": save_and_read_repair,
    "alternatives_scores": lambda: tl.alternatives(
        make_loans(), "group", outcome="repaid", reference="men", scores="score", features=LOANS
    ),
    "alternatives_model": lambda: audit_loans(model=score_loan_features, outcome="repaid")["women"].alternatives(0.02),
    "alternatives_unobserved": lambda: audit_unobserved(outcome="repaid")["women"].alternatives(threshold=0.6),
    "reweigh_inputs": lambda: audit_once("outcome_scores")["women"].reweigh(),
    "reweigh_outcome": lambda: audit_once("outcome_scores")["women"].reweigh(outcome=True),
    "rule_four_fifths": lambda: tl.rule_tables(make_loans(), "four-fifths", "group", selected="decision"),
    "rule_four_fifths_strata": lambda: tl.rule_tables(
        make_loans(), "four-fifths", ["group", "region"], selected="answer", favourable="approved", strata="product"
    ),
    "rule_local_law_selected": lambda: tl.rule_tables(
        make_lending(), "nyc-local-law-144", "group", selected="decision", smallest_share=0.2
    ),
    "rule_local_law_scores": lambda: tl.rule_tables(
        make_people(), "nyc-local-law-144", ["group", "sex"], scores="score", ratio_threshold=0.9, confidence=0.9
    ),
    "gates_scores": lambda: check_gates(audit_once("outcome_scores"), *GATES),
    "gates_decisions": lambda: check_gates(audit_once("decisions"), *GATES),
    "gates_unobserved": lambda: check_gates(audit_once("unobserved_labels"), *GATES, "bracket.low<-0.2", "linear<0"),
    "gates_tiny_groups": lambda: check_gates(audit_once("tiny_groups"), *GATES),
    "gates_change": lambda: check_gates(
        compare_loans(), "gap_change.low>0.01", "gap_change>-0.5", "gap_change>-1", "nonsense<1"
    ),
    "classifier_scores": fit_tilted_classifier,
    "classifier_decisions": lambda: fit_tilted_classifier(threshold=0.5, max_gap=0.02),
    "classifier_equalized_odds": lambda: fit_tilted_classifier(metric="equalized_odds"),
    "command_audit": lambda: run_on_loans("audit", *OF_LOANS, "--scores", "score", "--fail-if", "gap<-0.01"),
    "command_audit_json": lambda: run_on_loans("audit", *OF_LOANS, "--scores", "score", "--folds", "0", "--json", "-"),
    "command_compare": lambda: run_on_loans("compare", *OF_LOANS, "--scores", "old_score", "--scores", "score"),
    "command_rule": lambda: run_on_loans("rule", "--rule", "four-fifths", "--group", "group", "--selected", "decision"),
    "command_rule_strata": lambda: run_on_loans("rule", *STRATIFIED),
    "command_repair": lambda: run_on_loans("repair", *OF_LOANS, "--scores", "score", "--max-gap", "0.01"),
    "command_alternatives": lambda: run_on_loans("alternatives", *OF_LOANS, "--scores", "score", "--outcome", "repaid"),
    "command_error": lambda: run_on_loans("audit", "--group", "grup", "--scores", "score"),
}
SHARED = ("outcome_scores", "decisions", "unobserved_labels", "tiny_groups")
CASES: dict[str, Callable[[], Any]] = AUDITS | OTHERS | {name: partial(audit_once, name) for name in SHARED}
