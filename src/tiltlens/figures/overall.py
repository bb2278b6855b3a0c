"""The gap over looks at growing data, and the deviations of many groups."""

from __future__ import annotations

from typing import Any

from tiltlens.documents.display_names import group_name
from tiltlens.documents.labels import GROUP, labels
from tiltlens.documents.summary_access import Record, span
from tiltlens.figures.figure import Figure, data, figure, nothing
from tiltlens.figures.theme import AUDITED, FAINT, QUIET, WIDTH, altair
from tiltlens.formats import label, with_interval
from tiltlens.rows.measures import measure_of

DRAWN_LOOKS, DRAWN_GROUPS = 200, 40


def looks(audit: Record, audited: str | None = None) -> Figure:
    """Return a group's gap at each look with its confidence interval, and the wider confidence sequence around it."""
    if not audit["monitor"] or not audit["monitor"]["sequences"]:
        return nothing("Gap over all looks", "there is no state file of earlier looks")
    name = audited or next(iter(audit["monitor"]["sequences"]))
    m, rows = measure_of(audit), [row for row in audit["monitor"]["looks"] if row["audited"] == name][-DRAWN_LOOKS:]
    keys = ("gap", "gap_low", "gap_high", "sequence_low", "sequence_high")
    records = [{"look": row["look"], **{key: m.factor * row[key] for key in keys}} for row in rows]
    last = with_interval(rows[-1]["gap"], rows[-1]["sequence_low"], rows[-1]["sequence_high"], m.difference)
    description = f"{label(name, GROUP)} (audited): the gap over all people until each look. Last: {last}."
    notes = ("thick: confidence interval of one look", "thin: confidence sequence, for all looks at once")
    title = f"Gap over all looks, {label(name, GROUP)}"
    return figure(_over_looks(records, m.unit), records, title, description, *notes)


def _over_looks(records: list[Record], unit: str) -> Any:
    alt = altair()
    ends = [record[name] for record in records for name in ("sequence_low", "sequence_high")]
    scale = alt.Scale(domain=span([*ends, 0.0], 0.06), nice=False, zero=False)
    title = f"gap, in {unit} (+: audited higher)"
    x = alt.X("look:O", title="look", axis=alt.Axis(labelAngle=0, labelOverlap=True, grid=False))
    zero = alt.Chart(data([{"at": 0.0}], "zero")).mark_rule(color=FAINT).encode(y=alt.Y("at:Q", title=title))
    whiskers = [
        alt.Chart()
        .mark_rule(color=AUDITED, opacity=opacity, strokeWidth=wide)
        .encode(x=x, y=alt.Y(f"{name}_low:Q", title=title, scale=scale), y2=alt.Y2(field=f"{name}_high"))
        for name, opacity, wide in (("sequence", 0.3, 3), ("gap", 0.6, 5))
    ]
    dots = alt.Chart().mark_point(filled=True, size=50, color=AUDITED, opacity=1)
    dots = dots.encode(x=x, y=alt.Y("gap:Q", title=title, scale=scale))
    return alt.layer(zero, *whiskers, dots).properties(width=WIDTH, height=240)


def intersections(audit: Record) -> Figure:
    """Return the shrunken deviation of each listed group, the lowest first; of many, those at both ends."""
    if not audit["intersections"] or not audit["intersections"]["table"]:
        return nothing("Deviations of all groups", "there are few groups, or none of ten people")
    m, rows = measure_of(audit), sorted(audit["intersections"]["table"], key=lambda row: row["deviation"])
    half = DRAWN_GROUPS // 2
    shown = rows if len(rows) <= DRAWN_GROUPS else [*rows[:half], *rows[-half:]]
    texts = labels((group_name(audit["group"], row["group"]) for row in shown), GROUP)
    names = ("deviation", "deviation_low", "deviation_high")
    records = [
        {"label": text, **{name: m.factor * row[name] for name in names}}
        for text, row in zip(texts, shown, strict=True)
    ]
    ends = f"{texts[0]} {m.difference(rows[0]['deviation'])}, {texts[-1]} {m.difference(rows[-1]['deviation'])}"
    description = f"One row per group: its mean minus the overall mean, shrunk by its noise. First and last: {ends}."
    more = f"the {half} lowest and the {half} highest of {len(rows)}" if len(rows) > DRAWN_GROUPS else ""
    few = "groups of fewer than 10 people are not drawn" if audit["intersections"]["groups"] > len(rows) else ""
    return figure(_by_group(records, m.unit), records, "Deviations of all groups", description, more, few)


def _by_group(records: list[Record], unit: str) -> Any:
    alt = altair()
    ends = [record[name] for record in records for name in ("deviation_low", "deviation_high")]
    scale = alt.Scale(domain=span([*ends, 0.0], 0.06), nice=False, zero=False)
    title = f"deviation from the overall mean, in {unit}"
    y = alt.Y("label:N", sort=None, title=None, axis=alt.Axis(ticks=False, domain=False, grid=True, labelLimit=270))
    zero = alt.Chart(data([{"at": 0.0}], "zero")).mark_rule(color=QUIET).encode(x=alt.X("at:Q", title=title))
    whiskers = alt.Chart().mark_rule(strokeWidth=1.8, color=AUDITED)
    dots = alt.Chart().mark_point(filled=True, size=80, color=AUDITED, opacity=1)
    low = alt.X("deviation_low:Q", title=title, scale=scale)
    return alt.layer(
        zero,
        whiskers.encode(x=low, x2=alt.X2(field="deviation_high"), y=y),
        dots.encode(x=alt.X("deviation:Q", title=title, scale=scale), y=y),
    ).properties(width=WIDTH, height=alt.Step(22))
