"""Can the membership model be trusted? Calibration and balance."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.labels import labels, versus
from tiltlens.documents.summary_access import Record, span
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, BAND, FAINT, INK, PAPER, QUIET, WIDTH, altair
from tiltlens.formats import short_number

WITHIN = 0.1  # standard deviations


def calibration(comparison: Record) -> Figure:
    """Return the expected against the observed log-ratio, by tenths of the people, with the diagonal."""
    title = "Is the model of who is in which group right?"
    records = [dict(record) for record in comparison["bins"]["calibration"]]
    if not records:
        return nothing(title, "a group has fewer than ten people")
    description = (
        f"{versus(comparison)}. Each dot is a tenth of the people, or more where a tenth has few of a group: across, "
        "how much commoner the model expects them to be in the audited group, up, how much commoner they are. On the "
        "diagonal the two agree."
    )
    return figure(_diagonal(records), records, title, description, "on the diagonal, expected and observed agree")


def _diagonal(records: list[Record]) -> Any:
    alt = altair()
    ends = span([record[name] for record in records for name in ("expected", "observed")], 0.12, 0.2)
    scale = alt.Scale(domain=ends, nice=False, zero=False)
    x = alt.X("expected:Q", title="expected log-ratio", scale=scale)
    y = alt.Y("observed:Q", title="observed log-ratio", scale=scale)
    line = alt.Chart(data([{"expected": end, "observed": end} for end in ends], "diagonal"))
    line = line.mark_line(color=QUIET, strokeDash=[5, 3]).encode(x=x, y=y)
    dots = alt.Chart().mark_point(filled=True, size=100, color=AUDITED, opacity=1, stroke=PAPER, strokeWidth=1)
    dots = dots.encode(
        x=x,
        y=y,
        tooltip=[
            alt.Tooltip("expected:Q", title="expected log-ratio", format=".3f"),
            alt.Tooltip("observed:Q", title="observed log-ratio", format=".3f"),
            alt.Tooltip("n:Q", title="people", format=","),
        ],
    )
    return alt.layer(line, dots).properties(width=380, height=340)


def balance(comparison: Record) -> Figure:
    """Return how well the reference group, reweighted, reproduces the audited group's means."""
    title = "Does that model make the groups look alike?"
    checks = comparison["checks"]["balance"]
    if checks is None:
        return nothing(title, "plug-in values have no balance")
    if not checks["mismatches"]:
        return nothing(title, "there is nothing to balance")
    names = labels(mismatch["name"] for mismatch in checks["mismatches"])
    records = [_mismatch(mismatch, name) for mismatch, name in zip(checks["mismatches"], names, strict=True)]
    worst = records[0]
    description = (
        f"{versus(comparison)}. Differences left between the audited group and the reweighted reference group, in "
        f"standard deviations, with two standard errors either way. Largest: {worst['label']}, {worst['text']}."
    )
    verdict = "adequate" if checks["is_adequate"] else "inadequate"
    note = f"the model is judged {verdict}; grey band: ±{WITHIN} standard deviations"
    return figure(_mismatches(records), records, title, description, note)


def _mismatch(mismatch: Record, name: str) -> Record:
    value, se = mismatch["difference"], mismatch["se"]
    ends = (None, None) if value is None or se is None else (value - 2 * se, value + 2 * se)
    side = "none" if value is None else "beyond the band" if abs(value) > WITHIN else "within the band"
    record = {"name": mismatch["name"], "label": name, "difference": value, "se": se, "low": ends[0], "high": ends[1]}
    return record | {"side": side, "text": f"{short_number(value)} ± {short_number(None if se is None else 2 * se)}"}


def _mismatches(records: list[Record]) -> Any:
    alt = altair()
    y = alt.Y("label:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, grid=True))
    ends = [end for record in records for end in (record["low"], record["high"]) if end is not None]
    reach = 1.05 * max([abs(end) for end in ends] + [1.5 * WITHIN])
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    x = alt.X("difference:Q", title=["difference left", "in standard deviations", "(± 2 standard errors)"], scale=scale)
    band = alt.Chart(data([{"low": -WITHIN, "high": WITHIN}], "band")).mark_rect(color=BAND)
    shape = alt.Shape(
        "side:N", scale=alt.Scale(domain=["within the band", "beyond the band"], range=["circle", "diamond"])
    )
    shape.legend = None
    tooltip = [alt.Tooltip("label:N", title="what is compared"), alt.Tooltip("text:N", title="difference left")]
    whiskers = alt.Chart().transform_filter("datum.low != null").mark_rule(strokeWidth=1.6, color=QUIET)
    dots = alt.Chart().transform_filter("datum.difference != null")
    dots = dots.mark_point(filled=True, size=85, color=INK, opacity=1)
    zero = alt.Chart(data([{"zero": 0}], "zero")).mark_rule(color=FAINT).encode(x=alt.X("zero:Q"))
    layers = [
        band.encode(x=alt.X("low:Q", title=x["title"], scale=scale), x2=alt.X2(field="high")),
        zero,
        whiskers.encode(x=alt.X("low:Q", title=x["title"], scale=scale), x2=alt.X2(field="high"), y=y),
        dots.encode(x=x, y=y, shape=shape, tooltip=tooltip),
    ]
    return alt.layer(*layers).properties(width=WIDTH - 140, height=24 * len(records))
