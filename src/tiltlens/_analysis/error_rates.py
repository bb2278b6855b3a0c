"""Estimate error rates of both groups and calibration by decile; bound the gaps if some outcomes were not observed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import (
    Evidence,
    Settings,
    disclosed_counts,
    interval_columns,
    interval_schema,
    withheld,
)
from tiltlens._estimators import error_rates as rates
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.feature_gap import CellSums
from tiltlens._estimators.influence import Booleans, Integers, Rows
from tiltlens._formats import FieldTable
from tiltlens._limits import MINIMUM_ROWS, SCORE_TENTHS
from tiltlens._sources.arrays import quantile_edges
from tiltlens._sources.tables import Record
from tiltlens.paper.checks import Floats

PREDICTIVE = {
    "ppv": (1, rates.WITH),
    "npv": (0, rates.WITHOUT),
    "fdr": (1, rates.WITHOUT),
    "for": (0, rates.WITH),
}  # for decisions: the decision that is conditioned on, and the outcome that is counted
QUANTITIES = ("fpr", "fnr", "calibration", "auc", *PREDICTIVE, "log_loss")
NEEDED = {"fpr": "without the outcome", "fnr": "with the outcome"}  # calibration and AUC need both
NAMES = ("without", "with", "unknown")  # people by outcome, in the order of their codes
GROUPS = ("audited", "reference")
GAMMAS = (0.0, 0.02, 0.05, 0.1, 0.2)
STEPS = 12  # bisection steps for Γ, which make it accurate to a fortieth of a point
BOUND_ENDS = ("low", "high", "interval_low", "interval_high")
BOUND_SCHEMA: dict[str, type[pl.DataType]] = {"rate": pl.String} | dict.fromkeys(("gamma", *BOUND_ENDS), pl.Float64)
Ends = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class SelectiveLabels(FieldTable):
    """Bounds on gaps in error rates where outcomes of some people were not observed.

    Attributes
    ----------
    bounds
        For each error rate and Γ: the smallest and the largest gap if, at equal score and group, the frequency of the
        outcome among people without an observed outcome differs by at most Γ from that among the others; and the
        interval around both.
    sign_gamma
        The Γ up to which the sign of the gap is determined, 0 if it never is; `low` is that for the interval.
    """

    bounds: Annotated[pl.DataFrame, BOUND_SCHEMA]
    sign_gamma: dict[str, Estimate]


def selective_labels(evidence: Evidence, settings: Settings, measured: Collection[str]) -> SelectiveLabels | None:
    """Return bounds of the measured gaps in false positive and negative rates; None where all outcomes are observed."""
    outcome, rows, score = evidence.rows.y_true, evidence.sample, evidence.score.column
    both = {"fpr": (rates.WITHOUT, score), "fnr": (rates.WITH, 1 - score)}
    codes = {name: pair for name, pair in both.items() if name in measured}
    if outcome is None or not codes or not (outcome == rates.UNKNOWN).any() or evidence.rows.probabilities is not None:
        return None
    cell = np.searchsorted(quantile_edges(score, rows.weights, SCORE_TENTHS), score, side="left")

    def ends(code: int, x: Floats) -> Callable[[float], Ends]:
        pair = (rates.partly_seen_rate(rows, group, x, outcome, code, cell, MINIMUM_ROWS) for group in (True, False))
        audited, reference = pair

        def at(gamma: float) -> Ends:
            low, high = (settings.estimate(end.normal(-1.0, 1.0)) for end in rates.bound_gap(audited, reference, gamma))
            return low.value, high.value, low.low, high.high

        return at

    bounds = {name: ends(*pair) for name, pair in codes.items()}
    records = [
        {"rate": name, "gamma": gamma} | dict(zip(BOUND_ENDS, at(gamma), strict=True))
        for name, at in bounds.items()
        for gamma in GAMMAS
    ]
    signs = {name: Estimate(*(_sign_gamma(at, start) for start in (0, 2))) for name, at in bounds.items()}
    return SelectiveLabels(pl.DataFrame(records, schema=BOUND_SCHEMA), signs)


def _sign_gamma(ends: Callable[[float], Ends], start: int) -> float:
    """Return by bisection the largest Γ at which the bounds (`start` 0) or their intervals (`start` 2) exclude 0."""

    def is_determined(gamma: float) -> bool:
        low, high = ends(gamma)[start : start + 2]
        return low is not None and high is not None and (low > 0.0 or high < 0.0)

    # Bounds widen with Γ, so a sign that is lost stays lost.
    if is_determined(1.0) or not is_determined(0.0):
        return float(is_determined(1.0))
    low, high = 0.0, 1.0
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_determined(middle) else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class ErrorRate(FieldTable):
    """One error rate of both groups, and its difference, audited minus reference."""

    audited: Estimate
    reference: Estimate
    difference: Estimate


@dataclass(frozen=True, slots=True, eq=False)
class ErrorRates(FieldTable):
    """Error rates of both groups, from people with an observed outcome; None where a quantity was not measured.

    Attributes
    ----------
    fpr
        False positive rate E[W | Y = 0]: the share given decision 1 among people without the outcome; for scores, their
        mean score. A positive difference means that the audited group is more often wrongly given decision 1.
    fnr
        False negative rate E[1 − W | Y = 1]: the share given decision 0 among people with the outcome; for scores, 1
        minus their mean score.
    calibration
        Calibration E[Y − W]: above 0 if the outcome is more frequent than predicted.
    auc
        Probability that, of two people of the group, the person with the outcome has the higher score; ties count half.
    ppv, npv, fdr, for_
        For decisions: share with the outcome among people given decision 1, share without it among people given
        decision 0, and 1 minus each of these (false discovery and false omission rates).
    log_loss
        For scores: −E[Y·log W + (1 − Y)·log(1 − W)].
    selective_labels
        Bounds on the gaps where outcomes of some people were not observed; None where all were.
    reasons
        Why a quantity was not measured.
    people
        Numbers of people of each group without, with and of unknown outcome; None where suppressed.
    by_decile
        People, mean score and rate of the outcome, for each group and decile of all scores.
    """

    fpr: ErrorRate | None = field(metadata={"scale": "share"})
    fnr: ErrorRate | None = field(metadata={"scale": "share"})
    calibration: ErrorRate | None = field(metadata={"scale": "points"})
    auc: ErrorRate | None = field(metadata={"scale": "index"})
    ppv: ErrorRate | None = field(metadata={"scale": "share"})
    npv: ErrorRate | None = field(metadata={"scale": "share"})
    fdr: ErrorRate | None = field(metadata={"scale": "share"})
    for_: ErrorRate | None = field(metadata={"key": "for", "scale": "share"})
    log_loss: ErrorRate | None = field(metadata={"scale": "index"})
    selective_labels: SelectiveLabels | None
    reasons: dict[str, str]
    people: dict[str, dict[str, int | None]]
    by_decile: Annotated[pl.DataFrame, DECILE_SCHEMA]

    def rate(self, key: str) -> ErrorRate | None:
        """Return a rate by its key in JSON."""
        rate: ErrorRate | None = getattr(self, "for_" if key == "for" else key)
        return rate


def rate_pairs(evidence: Evidence, y_true: Integers) -> tuple[dict[str, rates.GroupPair], dict[str, str]]:
    """Return the error rates that can be estimated, and the reasons why others cannot."""
    score, population, sums = evidence.score.column, evidence.population, _counted(evidence)
    makers: dict[str, Callable[[], rates.GroupPair]] = {
        "fpr": lambda: rates.false_positive_rate(population, score, y_true, sums),
        "fnr": lambda: rates.false_negative_rate(population, score, y_true, sums),
        "calibration": lambda: rates.calibration_in_the_large(population, score, y_true, sums),
        "auc": lambda: rates.area_pair(evidence.sample, score, y_true),
    }
    if evidence.question.is_decisions:
        makers |= {
            name: partial(rates.predictive_rate, population, score, y_true, sums, *which)
            for name, which in PREDICTIVE.items()
        }
    else:
        makers["log_loss"] = lambda: rates.log_loss(evidence.sample, score, y_true)
    # As a fraction, a rate of decisions would reveal numbers of people that are suppressed.
    is_few = (group for group, counts in _people(sums).items() if counts["with"] is None)
    few = next(is_few, None) if evidence.question.is_decisions else None
    reveals = few and f"it would reveal how few people of the {few} group are with, or without, the outcome"
    reasons = {name: why for name in makers if (why := _too_few(name, evidence, y_true, sums) or reveals)}
    return {name: make() for name, make in makers.items() if name not in reasons}, reasons


def error_rates(evidence: Evidence, y_true: Integers, settings: Settings) -> ErrorRates:
    """Return the error rates, given the codes of observed outcomes."""
    (pairs, reasons), sums = rate_pairs(evidence, y_true), _counted(evidence)
    measured: dict[str, ErrorRate | None] = dict.fromkeys("for_" if name == "for" else name for name in QUANTITIES)
    for name, pair in pairs.items():
        estimates = map(settings.estimate, (pair.audited, pair.reference, pair.difference))
        measured["for_" if name == "for" else name] = ErrorRate(*estimates)
    return ErrorRates(
        **measured,
        selective_labels=selective_labels(evidence, settings, pairs),
        reasons=reasons,
        people=_people(sums),
        by_decile=_by_decile(evidence, y_true, settings, sums),
    )


def _counted(evidence: Evidence) -> CellSums:
    """Return the sums by outcome; for unobserved groups, people are allocated to outcomes by weight."""
    sums = evidence.sums_by["y_true"]
    if evidence.rows.probabilities is None:
        return sums
    # Each row is in both groups, so people are counted as shares of a group's size, not as rows.
    shares = sums.weight / sums.weight.sum(axis=1, keepdims=True)
    return replace(sums, people=np.round(np.array(evidence.rows.facts.people)[:, None] * shares))


def _too_few(name: str, evidence: Evidence, y_true: Integers, sums: CellSums) -> str | None:
    """Return why a rate is not estimated, such as too few people to whom it applies; None if it is."""
    rows, score = evidence.sample, evidence.score.column
    groups = tuple(zip(GROUPS, (rows.audited, ~rows.audited), strict=True))
    if name in PREDICTIVE:
        decided = PREDICTIVE[name][0]
        is_decided = (score == decided) & (y_true != rates.UNKNOWN)
        for group, who in groups:
            if few := _few(rows, is_decided & who):
                return f"{few} of the {group} group have decision {decided}"
        return None
    if name == "log_loss" and (score == np.where(y_true == rates.WITH, 0.0, 1.0))[y_true != rates.UNKNOWN].any():
        return "it is infinite, because a score of 0 or 1 was wrong"
    for code in (rates.WITHOUT, rates.WITH):
        whose = NEEDED["fpr" if code == rates.WITHOUT else "fnr"]
        for (group, who), people in zip(groups, sums.people[:, code], strict=True):
            if NEEDED.get(name, whose) == whose and (few := _few(rows, who & (y_true == code), int(people))):
                return f"{few} of the {group} group are {whose}"
    return None


def _few(rows: Rows, chosen: Booleans, people: int = MINIMUM_ROWS) -> str | None:
    if min(int(chosen.sum()), people) < MINIMUM_ROWS:
        return f"fewer than {MINIMUM_ROWS} people"
    return None if rows.has_errors(chosen) else "people in only one cluster"


def _people(sums: CellSums) -> dict[str, dict[str, int | None]]:
    """Return people by group and outcome; the numbers with and without it are suppressed if either is small."""
    people: dict[str, dict[str, int | None]] = {}
    for group, counts in zip(GROUPS, sums.people.astype(np.int64), strict=True):
        cells = [*disclosed_counts(counts[: rates.UNKNOWN]), int(counts[rates.UNKNOWN])]
        people[group] = dict(zip(NAMES, cells, strict=True))
    return people


def _by_decile(evidence: Evidence, y_true: Integers, settings: Settings, sums: CellSums) -> pl.DataFrame:
    """Return calibration by decile of all scores (ties share one), for groups whose outcome counts may be shown."""
    rows, score = evidence.sample, evidence.score.column
    probabilities = evidence.rows.probabilities
    people = None if probabilities is None else np.where(rows.audited, probabilities[:, 0], probabilities[:, 1])
    has_outcome = y_true != rates.UNKNOWN
    records: list[Record] = []
    if has_outcome.any():
        edges = quantile_edges(score[has_outcome], rows.weights[has_outcome], SCORE_TENTHS)
        # Cut at deciles of both groups together: a cell then means the same score in either.
        decile = np.searchsorted(edges, score, side="left")
        for group, who in zip(GROUPS, (rows.audited, ~rows.audited), strict=True):
            cells = rates.calibration_cells(rows, score, y_true, np.where(who & has_outcome, decile, -1), people)
            if _people(sums)[group]["with"] is not None:
                records += _cell_records(group, cells, settings)
    return pl.DataFrame(records, schema=DECILE_SCHEMA)


def _cell_records(group: str, cells: list[rates.CalibrationCell], settings: Settings) -> Iterator[Record]:
    """Yield a record for each cell, without numbers where the cell is suppressed."""
    hidden = withheld(np.array([cell.people for cell in cells]))
    for decile, (cell, is_hidden) in enumerate(zip(cells, hidden.tolist(), strict=True)):
        record: Record = {"group": group, "decile": decile + 1}
        if cell.people and not is_hidden:
            record |= {"n": cell.people, "mean_score": cell.mean_score}
            record |= interval_columns("observed", settings.estimate(cell.observed))
        yield record | ({} if cell.people else {"n": 0})


DECILE_SCHEMA: dict[str, type[pl.DataType]] = {
    "group": pl.String,
    "decile": pl.Int64,
    "n": pl.Int64,
    "mean_score": pl.Float64,
} | interval_schema("observed")
