"""Checks of the group-membership model: calibration and balance."""

from __future__ import annotations

from tiltlens.documents.labels import labels, versus
from tiltlens.figures.figure import Figure, Record, data, figure, in_unit, noted, nothing
from tiltlens.figures.marks import axis, dots, interval, lines_at, name_axis, tooltip
from tiltlens.figures.parts import span
from tiltlens.figures.theme import BAND, PAPER, QUIET, WIDTH, ChartPart, altair
from tiltlens.formats import count, short_number
from tiltlens.results.comparison import Comparison

WITHIN = 0.1  # standard deviations


def calibration(c: Comparison) -> Figure:
    """Return the expected against the observed log-ratio, by tenths of the people, with the diagonal."""
    title = "Calibration of the group-membership model"
    bins = c.bins().calibration
    if not bins:
        raise nothing(title, "a group has fewer than ten people")
    records = [
        {"expected": part.expected, "observed": part.observed, "n": part.n}
        | {"expected_text": short_number(part.expected), "observed_text": short_number(part.observed)}
        | {"people": count(part.n)}
        for part in bins
    ]
    description = (
        f"{versus(c)}. Each dot is a tenth of the people, or more where a tenth has few of a group: across, "
        "how much commoner the model expects them to be in the audited group; up, how much commoner they are. On the "
        "diagonal the two are equal."
    )
    reading = {"expected_text": "expected log-ratio", "observed_text": "observed log-ratio", "people": "people"}
    subtitle = in_unit(c, "log-ratios (0: as common in both groups)")
    note = noted(c, "dots: tenths of the people", "dashed: observed equals expected", intervals="")
    return figure(_diagonal(records, tooltip(reading)), records, title, description, reading, subtitle, note)


def _diagonal(records: list[Record], tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    ends = span([record[name] for record in records for name in ("expected", "observed")], 0.12, 0.2)
    x, y = axis("x", "expected", "expected log-ratio", ends), axis("y", "observed", "observed log-ratio", ends)
    line = alt.Chart(data([{"expected": end, "observed": end} for end in ends], "diagonal"))
    line = line.mark_line(color=QUIET, strokeDash=[5, 3]).encode(x=x, y=y)
    marks = dots("observed", size=100, stroke=PAPER, strokeWidth=1).encode(x=x, y=y, tooltip=tips)
    return alt.layer(line, marks).properties(width=380, height=340)


def balance(c: Comparison) -> Figure:
    """Return how well the reference group, reweighted, reproduces the audited group's means."""
    title = "Balance after reweighting the reference group"
    if c.checks.balance is None:
        raise nothing(title, "plug-in values have no balance")
    checks = c.checks.balance.disclosed()
    if not checks.mismatches:
        raise nothing(title, "the audit has no features to balance")
    names = labels(mismatch.name for mismatch in checks.mismatches)
    records = [
        _mismatch(mismatch.name, name, mismatch.difference, mismatch.se)
        for mismatch, name in zip(checks.mismatches, names, strict=True)
    ]
    worst = records[0]
    description = (
        f"{versus(c)}. Differences that remain between the audited group and the reweighted reference group, "
        f"in standard deviations, with two standard errors on either side. Largest: {worst['label']}, {worst['text']}."
    )
    verdict = f"model judged {'adequate' if checks.is_adequate else 'inadequate'}"
    note = noted(c, "lines: ±2 standard errors", f"grey: ±{WITHIN}", verdict, intervals="")
    reading = {"label": "feature or product", "text": "difference (standard deviations)"}
    subtitle = in_unit(c, "standard deviations")
    return figure(_mismatches(records, tooltip(reading)), records, title, description, reading, subtitle, note)


def _mismatch(name: str, label: str, value: float, se: float) -> Record:
    text = f"{short_number(value)} ± {short_number(2 * se)}"
    record = {"name": name, "label": label, "difference": value, "se": se, "text": text}
    return record | {"difference_low": value - 2 * se, "difference_high": value + 2 * se}


def _mismatches(records: list[Record], tips: list[ChartPart]) -> ChartPart:
    alt = altair()
    y, title = name_axis(), "difference, in SD"
    ends = [record[f"difference{end}"] or 0.0 for record in records for end in ("_low", "_high")]
    most = 1.05 * max([abs(end) for end in ends] + [1.5 * WITHIN])
    x = axis("x", "difference", title, [-most, most])
    beyond = f"abs(datum.difference) > {WITHIN}"
    shape = alt.condition(beyond, alt.value("diamond"), alt.value("circle"))
    band = alt.Chart(data([{"low": -WITHIN, "high": WITHIN}], "band")).mark_rect(color=BAND)
    layers = [
        band.encode(x=axis("x", "low", title), x2=alt.X2(field="high")),
        lines_at("x", [0.0], title, "zero"),
        interval("x", "difference", title, y, color=QUIET, strokeWidth=1.6),
        dots("difference").encode(x=x, y=y, shape=shape, tooltip=tips),
    ]
    return alt.layer(*layers).properties(width=WIDTH - 140, height=24 * len(records))
