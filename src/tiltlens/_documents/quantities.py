"""All reported quantities, each defined once: key, label, unit, format, definition and score types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tiltlens import _formats as formats
from tiltlens._documents.document import TEXT, Cell, Column, Table
from tiltlens._estimators.estimate import Estimate
from tiltlens._results.outputs import row_estimate
from tiltlens._rows.wording import Measure, ScoreType, amount


@dataclass(frozen=True, slots=True)
class Format:
    """The unit of a quantity, and the formats of its values and of their changes."""

    unit: str
    value: formats.Shown
    change: formats.Shown


@dataclass(frozen=True, slots=True)
class Quantity:
    """A reported number.

    Attributes
    ----------
    key : str
        Its key in the summary of a result.
    label : str
        The name under which it is displayed; names in braces are attributes of the `Measure`.
    scale : str
        The scale that determines unit and format, see `format_of`.
    definition : str
        A definition in a few words.
    applies : tuple of str
        The score types for which it is reported.
    """

    key: str
    label: str
    scale: str
    definition: str
    applies: tuple[str, ...] = tuple(ScoreType)

    def name(self, measure: Measure) -> str:
        """Return the label with its unit: "gap (points)"."""
        unit = format_of(self.scale, measure).unit
        return fill(self.label, measure) + (f" ({unit})" if unit else "")

    @property
    def head(self) -> str:
        """Return the label above a column of a table that is about contributions."""
        return self.label.replace("contribution", "").strip()


def format_of(scale: str, measure: Measure) -> Format:
    """Return unit and formats of a scale."""

    def size(value: float | None) -> str:
        return formats.NOTHING if value is None else measure.size(value)

    by_scale = {
        "gap": Format(measure.unit, measure.difference, measure.difference),
        "range": Format(measure.unit, measure.difference, measure.difference),
        "level": Format("", measure.level, measure.difference),
        "total": Format("", measure.total, measure.total),
        "size": Format(measure.unit, size, size),
        "points": Format("points", formats.points, formats.points),
        "share": Format("", formats.percent, formats.points),
        "ratio": Format("", formats.ratio, formats.ratio),
        "index": Format("", formats.short_number, formats.short_number),
        "nats": Format("nats", formats.number, formats.number),
        "number": Format("", formats.number, formats.number),
        "deviance": Format("", amount, amount),
        "count": Format("", formats.whole, formats.whole),
        "p": Format("", formats.p_value, formats.short_number),
    }
    return by_scale[scale]


def fill(text: str, measure: Measure) -> str:
    """Return a text with the words of a measure in the place of their names."""
    filled = text.format(
        mean=measure.mean,
        rate=measure.rate,
        predicted=measure.predicted,
        output=measure.output,
        each=measure.each,
        among=measure.among,
        missing=measure.affected_words,
        people=measure.people,
    )
    return filled.strip()


def _table(*quantities: Quantity, applies: tuple[str, ...] | None = None) -> dict[str, Quantity]:
    """Return quantities by key; `applies` holds for all of them."""
    return {item.key: item if applies is None else replace(item, applies=applies) for item in quantities}


_HEADLINE = _table(
    Quantity("gap", "gap", "gap", "{mean}, audited minus reference"),
    Quantity("linear", "linear estimate of the gap", "gap", "slope of the {each} on the group probability"),
    Quantity("bracket", "range of the gap", "range", "between the weighted and the linear estimate"),
    Quantity("limits", "limits of the gap", "range", "all that calibrated group probabilities allow"),
    Quantity("gap_explained_by_exempt", "gap explained by exempt factors", "gap", "part of the gap"),
    Quantity(
        "gap_given_exempt",
        "gap given exempt factors",
        "gap",
        "among {people} with the same values of the exempt factors",
    ),
    Quantity("adjusted_gap", "adjusted gap", "gap", "among {people} with the same values of all listed features"),
    Quantity("impact_ratio", "impact ratio", "ratio", "{rate}, audited ÷ reference{among}"),
    Quantity(
        "adverse_impact_ratio",
        "adverse impact ratio",
        "ratio",
        "lower ÷ higher of the two rates{among}",
        (ScoreType.DECISION,),
    ),
    Quantity("shortfall", "shortfall", "total", "{missing}"),
)
_RATES = _table(
    Quantity("favourable_rate", "{rate}", "level", "{among}"),
    Quantity("audited_rate", "{rate}, audited", "level", "{among}"),
    Quantity("reference_rate", "{rate}, reference", "level", "{among}"),
    Quantity("metric_rate", "{mean}", "level", ""),
)
_CORRECTION = _table(
    Quantity("standardised_difference", "standardised difference", "index", "gap in standard deviations"),
    Quantity("gap_test", "test of equal means", "p", "probability of a gap at least this large if there is none"),
    Quantity("output_divergence", "output divergence", "nats", "between the groups' {each}s"),
    Quantity("input_divergence", "input divergence", "nats", "between the groups' features"),
    Quantity("descent_rate", "descent rate", "number", "slope of the objective along the correction function"),
    Quantity(
        "detection_sample_size",
        "sample size to detect the gap",
        "count",
        "{each}s from which a test detects the gap, with 5% false alarms and 5% misses",
        (ScoreType.PROBABILITY, ScoreType.DECISION),
    ),
)
_ERROR_RATES = _table(
    Quantity("fpr", "false positive rate", "share", "share given 1 among {people} without the outcome"),
    Quantity("fnr", "false negative rate", "share", "share given 0 among {people} with the outcome"),
    Quantity("calibration", "calibration error", "points", "observed minus predicted rate of the outcome"),
    Quantity("ppv", "positive predictive value", "share", "share with the outcome among people given decision 1"),
    Quantity("npv", "negative predictive value", "share", "share without the outcome among people given decision 0"),
    Quantity("fdr", "false discovery rate", "share", "share without the outcome among people given decision 1"),
    Quantity("for", "false omission rate", "share", "share with the outcome among people given decision 0"),
)
_ERRORS = _ERROR_RATES | _table(
    *(
        Quantity(f"{rate.key}_difference", f"gap in {rate.label}s", "points", "audited minus reference")
        for rate in _ERROR_RATES.values()
    ),
    Quantity("auc", "AUC", "index", "area under the ROC curve of the {each}s"),
    Quantity("auc_difference", "difference in AUC", "index", "audited minus reference"),
    Quantity("log_loss_difference", "difference in log loss", "index", "audited minus reference"),
    Quantity("sign_gamma", "sign determined up to Γ", "points", "how much event rates of the unobserved may differ"),
)
_PRICES = _table(
    Quantity(
        "proxy_discrimination",
        "proxy discrimination (PD)",
        "share",
        "share of the price's variance that no constant plus mixture of the groups' expected costs accounts for",
    ),
    Quantity(
        "unfairness",
        "variance between the groups (UF)",
        "share",
        "share of the price's variance that lies between groups",
    ),
    Quantity(
        "vulnerability",
        "mean proxy vulnerability",
        "size",
        "distance of the best price without the group from the discrimination-free price",
    ),
    Quantity(
        "unaware_gap",
        "gap of the best price without the group",
        "gap",
        "mean of E[cost | features], audited minus reference",
    ),
    Quantity(
        "free_gap",
        "gap of the discrimination-free price",
        "gap",
        "mean of the groups' expected costs, mixed by their shares of all {people}, audited minus reference",
    ),
    Quantity(
        "proxy_gap",
        "gap beyond the mixture of expected costs",
        "gap",
        "gap of the price minus that of the mixture",
    ),
    Quantity("actual_to_expected", "A/E, everyone", "ratio", "observed cost ÷ price"),
    Quantity("actual_to_expected_audited", "A/E, audited", "ratio", "observed cost ÷ price"),
    Quantity("actual_to_expected_reference", "A/E, reference", "ratio", "observed cost ÷ price"),
    Quantity("actual_to_expected_ratio", "ratio of A/E", "ratio", "audited ÷ reference"),
    Quantity("mean_absolute_change", "mean absolute change of the price", "size", "money moved"),
    Quantity("share_rising", "{people} whose price rises", "share", "of all {people}"),
    Quantity("share_falling", "{people} whose price falls", "share", "of all {people}"),
    Quantity("deviance_poisson", "Poisson deviance", "deviance", "mean deviance of the cost from the price"),
    Quantity(
        "deviance_tweedie",
        "Tweedie deviance (power 1.5)",
        "deviance",
        "mean deviance of the cost from the price",
    ),
    Quantity("deviance_gamma", "gamma deviance", "deviance", "mean deviance of the cost from the price"),
    applies=(ScoreType.AMOUNT,),
)
_SENSITIVITY = _table(
    Quantity(
        "robustness_value",
        "robustness value",
        "share",
        "share of the remaining variance of {each}s and group membership that an omitted factor needs to account "
        "for the gap",
    ),
    Quantity(
        "r2_score",
        "explained variance of the {each}s",
        "share",
        "share of the variance that the other features do not explain, within groups",
    ),
    Quantity(
        "r2_group",
        "explained variance of the group",
        "share",
        "share of the variance that the other features do not explain",
    ),
    Quantity("multiple", "times as strong", "ratio", "multiple of both shares that accounts for the gap"),
)
_EVALUATION = _table(
    Quantity("decision_gap", "gap in decision rates", "points", "audited minus reference"),
    Quantity("accuracy", "accuracy", "share", "share of correct decisions"),
    Quantity("auc_audited", "AUC, audited", "index", "area under the ROC curve in the audited group"),
    Quantity("auc_reference", "AUC, reference", "index", "area under the ROC curve in the reference group"),
    Quantity("log_loss", "log loss", "index", "lower is better"),
    Quantity("brier", "Brier score", "index", "lower is better"),
    Quantity("error_rate", "error rate", "points", "share of wrong decisions where 1 is predicted above one half"),
    Quantity("score_gap", "gap in mean scores", "points", "audited minus reference"),
    Quantity("accuracy_change", "change in accuracy", "points", "alternative minus audited rule"),
    Quantity("gap_reduction", "reduction of the gap", "points", "in size, audited rule minus alternative"),
    Quantity("ratio_gain", "gain in the impact ratio", "ratio", "lower ÷ higher rate, alternative minus audited rule"),
    Quantity("gap_change", "change in the gap", "points", "after minus before"),
    Quantity("selected", "selection rate", "share", "share of {people} with decision 1"),
    Quantity("true_positive_rate", "true positive rate", "share", "share given 1 among {people} with the outcome"),
)
_WEIGHTED = _table(
    Quantity("weighted_gap", "weighted gap", "gap", "each row counts in both groups by its probabilities"),
)
_SETTINGS = _table(
    Quantity("materiality", "materiality threshold", "size", "the smallest gap that matters"),
    Quantity("rows", "people", "count", "in a group"),
    Quantity("potential_proxies", "potential proxies", "count", "features, alone, in combination or unless stand-ins"),
    Quantity("undecided", "inconclusive features", "count", "with the verdict inconclusive"),
    Quantity("not_judged", "features not assessed", "count", "with the verdict not assessed"),
    Quantity("stand_ins", "stand-ins", "count", "features with this verdict"),
    Quantity("too_small", "groups too small", "count", "fewer than 10 people"),
)
_INTERSECTIONS = _table(
    Quantity(
        "between_groups", "standard deviation between groups", "gap", "spread of the groups' means, weighted by people"
    ),
    Quantity("main_effects", "main effects", "gap", "standard deviation of the sum of effects of single columns"),
    Quantity("interaction", "interaction", "gap", "standard deviation of the part that only intersections explain"),
    Quantity("deviation", "deviation", "gap", "a group's mean minus the overall mean, shrunk by its noise"),
)
QUANTITIES = {
    **{**_HEADLINE, **_WEIGHTED, **_RATES, **_CORRECTION, **_ERRORS, **_SENSITIVITY},
    **{**_EVALUATION, **_SETTINGS, **_INTERSECTIONS, **_PRICES},
}
ALIASES = {
    "linear_gap": "linear",
    "exempt_gap": "gap_given_exempt",
    "linear_change": "linear",
}  # other keys of the same quantities
HEADLINE_KEYS, CORRECTION_KEYS = tuple(_HEADLINE), tuple(_CORRECTION)
INTERSECTION_KEYS = ("between_groups", "main_effects", "interaction")
SEQUENCE_KEYS = ("gap", "impact_ratio", "fpr_difference", "fnr_difference")  # with confidence sequences

# Columns of the table of features, keyed by the names of these columns.
FEATURES = _table(
    Quantity(
        "alone",
        "contribution alone",
        "gap",
        "the gap minus the gap among {people} with the same value of the feature",
    ),
    Quantity(
        "beyond_others",
        "contribution beyond the others",
        "gap",
        "change in the adjusted gap when the feature is left out of the list",
    ),
    Quantity("shapley", "Shapley contribution", "gap", "the feature's part of what all features account for"),
    Quantity(
        "use",
        "use",
        "size",
        "how far the {output} moves with the feature if the group and the other features stay the same",
    ),
    Quantity("reveals", "reveals", "index", "how well the feature separates the groups, from 0 to 1"),
    Quantity("drives", "drives", "level", "how far the mean {each} varies with the feature"),
    Quantity("alignment", "alignment", "index", "correlation of the two over the values of the feature"),
    Quantity("share", "share of the correction", "share", "achieved by shifting this feature alone"),
    Quantity(
        "segment_vulnerability",
        "proxy vulnerability",
        "gap",
        "best price without the group minus the discrimination-free price",
    ),
)
CONTRIBUTIONS = ("alone", "beyond_others", "shapley", "use")


def quantity(key: str) -> Quantity:
    """Return a quantity by its key; an unknown key is its own label."""
    key = ALIASES.get(key, key)
    return QUANTITIES.get(key) or Quantity(key, key.replace("_", " "), "index", "")


def estimate_cell(estimate: Estimate | None, write: formats.Shown) -> Cell:
    """Return an estimate as a cell with value and interval."""
    if estimate is None:
        return Cell(formats.NOTHING)
    low, high = estimate.low, estimate.high
    is_known = low == high  # no interval, or an estimate without error
    ends = "" if is_known else formats.interval(low, high, write)
    return Cell(formats.within(low, high, write)(estimate.value), ends, value=estimate.value)


def written(estimate: Estimate | None, write: formats.Shown, name: str = "", unit: str = "") -> str:
    """Return an estimate as text with its interval, which `name` may precede."""
    if estimate is None:
        return write(None)
    return formats.with_interval(estimate.value, estimate.low, estimate.high, write, name, unit)


def estimate_words(estimate: Estimate, measure: Measure, name: str = "") -> str:
    """Return a gap as in a sentence: "−12.9 points (95% CI −19.9 to −6.0)"."""
    return written(estimate, brief(estimate, measure), name, measure.unit)


def range_words(ends: Estimate, measure: Measure) -> str:
    """Return a range of a gap as in a sentence: "−21.3 to −5.8 points"."""
    return measure.with_unit(formats.interval(ends.low, ends.high, brief_of((ends.low, ends.high), measure)))


def brief(estimate: Estimate, measure: Measure) -> formats.Shown:
    """Return a format with one decimal for gaps of at least a point and two for smaller ones."""
    return brief_of((estimate.value, estimate.low, estimate.high), measure)


def brief_of(values: Iterable[float | None], measure: Measure) -> formats.Shown:
    """Return the format of `brief` for values that are shown together."""
    if measure.is_amount:
        return partial(_amount_beside, measure, [*values])
    return formats.brief_points(*values)


def column_format(rows: Iterable[Mapping[str, Any]], name: str, scale: str, measure: Measure) -> formats.Shown:
    """Return the format of numbers of a scale in the columns NAME, NAME_low and NAME_high.

    Amounts have as many decimals as the largest of them.
    """
    if not measure.is_amount:
        return format_of(scale, measure).value
    return brief_of([row.get(f"{name}{end}") for row in rows for end in ("", "_low", "_high")], measure)


def _amount_beside(measure: Measure, values: Sequence[float | None], value: float | None) -> str:
    text = measure.difference(value, *values)
    return measure.difference(0.0) if value is not None and formats.is_zero(text) else text


def quantity_cell(item: Quantity, estimate: Estimate | None, measure: Measure) -> Cell:
    """Return an estimate of a quantity as a cell; for a range, only its two ends."""
    write = format_of(item.scale, measure).value
    if item.scale == "range" and estimate is not None:
        return Cell(formats.interval(estimate.low, estimate.high, write))
    return estimate_cell(estimate, write)


def row_cell(row: Mapping[str, Any], name: str, write: formats.Shown) -> Cell:
    """Return the estimate in the columns NAME, NAME_low and NAME_high of a row as a cell."""
    return estimate_cell(row_estimate(row, name), write)


def row_cells(row: Mapping[str, Any], items: Iterable[Quantity], measure: Measure) -> Iterator[Cell]:
    """Return the estimates of quantities in a row of a frame as cells."""
    return (quantity_cell(item, row_estimate(row, item.key), measure) for item in items)


def quantity_table(
    name: str, rows: Iterable[tuple[Quantity, Estimate | None]], measure: Measure, interval_label: str
) -> Table:
    """Return a table of quantities with their values, intervals and definitions."""
    heads = ("quantity", "value", Column("definition", TEXT, is_optional=True))
    cells = (
        (item.name(measure), quantity_cell(item, estimate, measure), fill(item.definition, measure))
        for item, estimate in rows
    )
    return Table.of(name, heads, cells, interval_label)


def change_table(
    name: str,
    rows: Iterable[tuple[Quantity, Sequence[Estimate | None]]],
    heads: Sequence[str],
    measure: Measure,
    interval_label: str,
) -> Table:
    """Return a table with two values of each quantity and their difference."""
    cells = []
    for item, estimates in rows:
        write = format_of(item.scale, measure)
        of_change = write.value if estimates[0] is None else write.change  # money moved is itself a change
        values = map(estimate_cell, estimates, (write.value, write.value, of_change))
        cells.append((item.name(measure), *values))
    return Table.of(name, ("quantity", *heads), cells, interval_label)
