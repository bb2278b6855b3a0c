"""Figures with observed outcomes or costs (calibration, prices, separate models), and of an omitted factor."""

from __future__ import annotations

from tiltlens._analysis.adjusted_gap import Sensitivity
from tiltlens._documents.document import BOTH, groups, labels, measure_of, versus
from tiltlens._documents.prices import STATES
from tiltlens._documents.quantities import written
from tiltlens._documents.sentences import GAIN_COLUMNS, GAIN_STATES, sensitivity_words
from tiltlens._formats import count, interval_name, percent, ratio
from tiltlens._repair.free_price import PriceEvaluation
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import row_estimate
from tiltlens._rows.wording import Measure
from tiltlens.figures import _marks as draw
from tiltlens.figures._figure import Figure, figure, in_unit, joined, noted, nothing, people_of
from tiltlens.figures._marks import ChartPart, Record, alt


def score_calibration(c: Comparison) -> Figure:
    """Return the observed rate of the outcome against the mean score, by group and decile of all scores."""
    rates, m = c.error_rates, measure_of(c)
    title = f"Calibration of {m.each}s by group"
    if rates is None:
        raise nothing(title, "the audit has no outcome")
    if c.scale.score_type == "decision":
        raise nothing(title, "decisions are 0 or 1; their error rates are in the report")
    deciles = rates.by_decile.to_dicts()
    names = dict(zip(BOTH, groups(c), strict=True))
    records = [_rate_record(row, names[row["group"]]) for row in deciles if row["observed"] is not None]
    if not records:
        raise nothing(title, "each decile has fewer than ten people with an outcome, or reveals one that has")
    description = (
        f"{versus(c)}. One dot per group and decile of all {m.each}s: across, the {m.mean}; up, the observed "
        "rate of the outcome, with its interval. On the diagonal the two are equal."
    )
    is_hidden = any(row["observed"] is None and row["n"] is None for row in deciles)
    few = "deciles with fewer than ten people of a group are left out" if is_hidden else ""
    reading = {"group": "group", "decile": "decile", "mean_text": m.mean, "text": "observed rate", "people": m.people}
    note = noted(c, "dashed: observed rate equals score", few)
    subtitle = in_unit(c, "% of each decile of scores")
    chart = _calibration_chart(names, m.mean, draw.tooltip(reading))
    return figure(chart, records, title, description, reading, subtitle, note)


def _rate_record(row: Record, name: str) -> Record:
    text = written(row_estimate(row, "observed"), percent)
    texts = {"group": name, "text": text, "mean_text": percent(row["mean_score"]), "people": count(row["n"])}
    return {key: row[key] for key in row if key != "group"} | texts


def _calibration_chart(names: dict[str, str], mean: str, tips: list[ChartPart]) -> ChartPart:
    percents: Record = {"format": ".0%", "tickCount": 5}
    x = draw.axis("x", "mean_score", mean, [0, 1], **percents)
    y = draw.axis("y", "observed", "observed rate of the outcome", [0, 1], **percents)
    colour, shape = draw.group_channels("group", [*names.values()], "top-left")
    line = draw.diagonal(x, y, ("mean_score", "observed"), (0, 1))
    whiskers = draw.interval("y", "observed", y["title"], x, strokeWidth=1.6, opacity=0.7).encode(color=colour)
    marks = draw.dots("observed").encode(x=x, y=y, color=colour, shape=shape, tooltip=tips)
    return alt.layer(line, whiskers, marks).properties(width=draw.WIDTH - 120, height=340)


PRICE_TITLE = "Price against discrimination-free price"
EFFECT_TITLE = "Actual to expected by decile of the price"
EFFECT_AXIS = "actual to expected (A/E)"
EFFECT_READING = {"group": "group", "which": "price", "decile": "decile", "text": "actual to expected"}
PRICE_READING = {
    "group": "group",
    "decile": "decile",
    "price": "mean price",
    "free_price": "mean discrimination-free price",
    "ratio": "actual to expected",
    "n": "people",
}


def prices(c: Comparison) -> Figure:
    """Return the mean price against the mean discrimination-free price, one dot per group and decile of the price."""
    costs = c.prices
    if costs is None:
        raise nothing(PRICE_TITLE, "no observed costs were given, or too few people have one")
    names = dict(zip(BOTH, groups(c), strict=True))
    records = [
        _record(row, names[row["group"]]) for row in costs.by_decile.iter_rows(named=True) if row["price"] is not None
    ]
    if not records:
        raise nothing(PRICE_TITLE, "each decile has fewer than ten people of a group")
    m = measure_of(c)
    description = (
        f"{versus(c)}. {STATES[costs.status].capitalize()}. One dot per group and decile of the price: "
        "across, the mean discrimination-free price, up, the mean price. On the diagonal the two agree."
    )
    hidden = costs.by_decile["n"].has_nulls()
    left_out = "deciles with fewer than ten people of a group are left out" if hidden else ""
    note = noted(c, "dashed: the two agree", left_out, intervals="")
    chart = _price_chart(records, names, m.unit)
    subtitle = in_unit(c, m.long_unit)
    return figure(chart, records, PRICE_TITLE, description, PRICE_READING, subtitle, note)


def price_effect(evaluation: PriceEvaluation) -> Figure:
    """Return actual to expected by group and decile of the price, before and after the new price."""
    names = dict(zip(BOTH, groups(evaluation), strict=True))
    records = [_effect(row, names[row["group"]]) for row in evaluation.by_decile.iter_rows(named=True)]
    records = [record for record in records if record["ratio"] is not None]
    if not records:
        raise nothing(EFFECT_TITLE, "no costs of these people were given, or each decile has too few of them")
    description = (
        f"{versus(evaluation)}. One dot per group and decile of the price, before and after: observed cost divided by "
        "price. At 1, prices equal costs."
    )
    hidden = evaluation.by_decile["n"].has_nulls()
    left_out = "deciles with fewer than ten people of a group are left out" if hidden else ""
    note = joined(people_of(evaluation.rows), f"lines: {interval_name(evaluation.confidence)}", left_out)
    subtitle = joined(versus(evaluation), "observed cost ÷ price", "○ before, ● after")
    chart = _effect_chart(records, [*names.values()])
    return figure(chart, records, EFFECT_TITLE, description, EFFECT_READING, subtitle, note)


def _effect(row: Record, name: str) -> Record:
    estimate = row_estimate(row, "actual_to_expected")
    record = {"group": name, "which": row["which"], "decile": row["decile"]}
    return record | draw.scaled({"ratio": estimate}, 1.0) | {"text": written(estimate, ratio)}


def _effect_chart(records: list[Record], names: list[str]) -> ChartPart:
    colour, shape = draw.group_channels("group", names, "top")
    x = alt.X("decile:O", title="decile of the price", axis=alt.Axis(labelAngle=0))
    y = draw.axis("y", "ratio", EFFECT_AXIS, draw.reach(records, ("ratio",), 1.0))
    # Before and after are drawn side by side, so that their intervals do not overlap.
    beside = alt.XOffset("which:N", sort=["before", "after"])
    encoded = {"x": x, "color": colour, "shape": shape, "xOffset": beside}
    whiskers = draw.interval("y", "ratio", EFFECT_AXIS, x, strokeWidth=1.4).encode(color=colour, xOffset=beside)
    marks = [
        draw.dots("ratio", filled=which == "after", fill=draw.PAPER if which == "before" else alt.Undefined)
        .transform_filter(f"datum.which == '{which}'")
        .encode(y=y, tooltip=draw.tooltip(EFFECT_READING), **encoded)
        for which in ("before", "after")
    ]
    rule = draw.lines_at("y", [1.0], EFFECT_AXIS, "covered", solid=1.0)
    return alt.layer(rule, whiskers, *marks).properties(width=draw.WIDTH, height=300)


def _record(row: Record, name: str) -> Record:
    text = written(row_estimate(row, "actual_to_expected"), ratio)
    return {key: row[key] for key in ("decile", "n", "price", "free_price")} | {"group": name, "ratio": text}


def _price_chart(records: list[Record], names: dict[str, str], unit: str) -> ChartPart:
    every = [row[key] for row in records for key in ("price", "free_price")]
    scale = alt.Scale(zero=False, nice=True)
    behind = f" ({unit})" if unit else ""
    x = alt.X("free_price:Q", title=f"mean discrimination-free price{behind}", scale=scale)
    y = alt.Y("price:Q", title=f"mean price{behind}", scale=scale)
    colour, shape = draw.group_channels("group", [*names.values()], "top-left")
    line = draw.diagonal(x, y, ("free_price", "price"), (min(every), max(every)))
    marks = alt.Chart().mark_point(filled=True, size=80, opacity=1)
    marks = marks.encode(x=x, y=y, color=colour, shape=shape, tooltip=draw.tooltip(PRICE_READING))
    return alt.layer(line, marks).properties(width=draw.WIDTH - 120, height=340)


SPLITTING_TITLE = "Gain from a separate model for each group"


def splitting(c: Comparison) -> Figure:
    """Return the gain in Brier score at equal weights, in each group, and at the weights with the largest gain."""
    gains = c.splitting
    if gains is None:
        raise nothing(SPLITTING_TITLE, "the audit has no outcome, or too few people with one")
    whole, names = gains.blind_brier, dict(zip(BOTH, groups(c), strict=True))
    records = []
    for key, text in GAIN_COLUMNS.items():
        gain = gains.relative(gains.brier.of(key))
        texts = {"label": names.get(key, text), "text": written(gain, percent)}
        records.append(texts | draw.scaled({"gain": gain}, 1.0))
    limit = gains.materiality / whole
    state = GAIN_STATES[gains.status["both"]]
    description = f"{versus(c)}. At equal weights: {state}. One dot per row, with its interval."
    what = ["reduction of the Brier score,", "in % of that of one model →"]
    reading = {"label": "group", "text": "gain"}
    x = draw.axis("x", "gain", what, draw.reach(records, ("gain",), 0.0, limit, room=0.04), format=".1%")
    y = draw.name_axis()
    chart = alt.layer(
        draw.lines_at("x", [0.0, limit], what),
        draw.interval("x", "gain", what, y),
        draw.dots("gain").encode(x=x, y=y, tooltip=draw.tooltip(reading)),
    )
    note = noted(c, f"dashed: materiality threshold, {percent(limit)}")
    chart = chart.properties(width=draw.WIDTH - 100, height=130)
    return figure(chart, records, SPLITTING_TITLE, description, reading, in_unit(c, "% of the Brier score"), note)


SENSITIVITY_TITLE = "Strength of an omitted factor that would account for the adjusted gap"
DRAWN = 8  # maximum number of listed features, the strongest first
LEFT = (0.75, 0.5, 0.25, 0.0)  # share of the gap that remains on each curve; 0: none
STEPS, HEIGHT = 40, 340
NAMED = 0.045  # share of an axis below which names would overlap
FEATURE = 18  # maximum number of characters of a name


def sensitivity(c: Comparison, quantity: str = "adjusted_gap") -> Figure:
    """Return curves of equal remaining gap by the shares that an omitted factor explains, and listed features."""
    bounds, m = c.gap_parts.sensitivity.get(quantity), measure_of(c)
    if bounds is None:
        raise nothing(SENSITIVITY_TITLE, "the adjusted gap was not estimated from rows")
    gap = bounds.gap.value
    if not bounds.scale or abs(gap) < c.scale.materiality:
        raise nothing(SENSITIVITY_TITLE, f"the adjusted gap of {m.with_unit(m.difference(gap))} is not material")
    points = bounds.yardsticks[:DRAWN]
    names = labels((row.feature for row in points), FEATURE)
    strengths = [max(row.r2_group for row in points), max(row.r2_score for row in points)] if points else [0.0, 0.0]
    right, top = (min(1.15 * max(most, 2.0 * bounds.robustness_value.value), 1.0) for most in strengths)
    records = [
        row._asdict()
        | {"r2_score_text": percent(row.r2_score), "r2_group_text": percent(row.r2_group)}
        | {"label": name, "name": name if max(row.r2_group / right, row.r2_score / top) > NAMED else ""}
        for row, name in zip(points, names, strict=True)
    ]
    lines = [point for left in LEFT for point in _curve(bounds, left, right, top, m)]
    words = " ".join(sensitivity_words(c, quantity))
    description = f"{versus(c)}. {words} Further right and up, an omitted factor accounts for more."
    weak = ", ".join(record["label"] for record in records if not record["name"])
    near_0 = f"not drawn, near 0: {weak}" if weak else ""
    note = noted(c, "curves: adjusted gap that would remain", "dots: listed features", near_0, intervals="")
    reading = {"label": "feature", "r2_group_text": "of group membership", "r2_score_text": f"of the {m.each}s"}
    chart = _sensitivity_chart(records, lines, right, top, m, draw.tooltip(reading))
    subtitle = in_unit(c, "% of the variance left by the listed features")
    return figure(chart, records or [{"label": ""}], SENSITIVITY_TITLE, description, reading, subtitle, note)


def _curve(bounds: Sensitivity, left: float, right: float, top: float, m: Measure) -> list[Record]:
    """Return points of R²_W = (B/𝒮)²·(1 − R²_S)/R²_S within the figure, where B is the part of the gap removed."""
    taken = ((1.0 - left) * bounds.gap.value / bounds.scale) ** 2
    start = taken / (top + taken)
    name = m.with_unit(m.difference(left * bounds.gap.value)) if left else "all accounted for"
    if start >= right:
        return []
    shares = [start * (right / start) ** (step / STEPS) for step in range(STEPS + 1)]
    return [
        {"name": name, "is_zero": left == 0.0, "step": step, "r2_group": x, "r2_score": taken * (1.0 - x) / x}
        for step, x in enumerate(shares)
    ]


def _sensitivity_chart(
    records: list[Record], lines: list[Record], right: float, top: float, m: Measure, tips: list[ChartPart]
) -> ChartPart:
    percents: Record = {"format": ".0%", "tickCount": 6}
    x = draw.axis(
        "x", "r2_group", ["share of the variance of group", "membership that it explains →"], [0, right], **percents
    )
    y = draw.axis("y", "r2_score", f"share of the {m.each}s' variance that it explains →", [0, top], **percents)
    base = draw.chart(lines, "curves").encode(x=x, y=y)
    curves = base.mark_line(clip=True).encode(
        detail=alt.Detail("name:N"),
        order=alt.Order("step:Q"),
        color=alt.condition("datum.is_zero", alt.value(draw.INK), alt.value(draw.FAINT)),
        strokeWidth=alt.condition("datum.is_zero", alt.value(2.2), alt.value(1)),
    )
    ends = [point for point in lines if point["step"] == STEPS]
    heights = draw.spread([point["r2_score"] for point in ends], 13 * top / HEIGHT)
    named = [point | {"r2_score": height} for point, height in zip(ends, heights, strict=True)]
    layers = [curves, draw.names_at(named, "curve_names", dx=4, fontSize=11, color=draw.QUIET).encode(x=x, y=y)]
    if records:
        named_dots = (
            alt.Chart().transform_filter("datum.name != ''").mark_point(filled=True, size=70, opacity=1, color=draw.INK)
        )
        layers += [
            named_dots.encode(x=x, y=y, tooltip=tips),
            *draw.halo(alt.Chart().encode(x=x, y=y, text=alt.Text("name:N")), align="left", dx=7, dy=-5),
        ]
    return alt.layer(*layers).properties(width=draw.WIDTH - 60, height=HEIGHT)
