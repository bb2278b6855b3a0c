"""An audit's tables to hand on, rates and proxy evidence: every number, and a few of them as people read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tiltlens import formats
from tiltlens.documents.display_names import group_name, with_display_names
from tiltlens.documents.ratios import ratio_name
from tiltlens.documents.unobserved_groups import expected, gap_name, soft_estimates
from tiltlens.formats import NOTHING, Shown, count, interval, interval_name, number, typed, with_interval
from tiltlens.render.text_blocks import DOES_NOT_SHOW
from tiltlens.rows.measures import measure_of

RATES, PROXIES = NAMES = ("rates", "proxies")
ENDS = ("", "_low", "_high")
AGAINST_REFERENCE = (  # estimates of an audited group, beside its rate
    *("gap", "impact_ratio", "adverse_impact_ratio", "shortfall", "standardised_difference", "unexplained"),
    *("through_exempt", "at_equal_exempt", "linear", "bracket", "limits"),
)
ERROR_RATES = ("fpr", "fnr", "calibration", "auc")
BANDS = "Bands of the gap and with others hold for all features at once, and verdicts are read from them."


@dataclass(frozen=True, slots=True)
class HandedTable:
    """A table to hand on.

    Attributes
    ----------
    name, title
        Of a file or a sheet; and what it shows.
    columns, records
        Every number as it is, None where it is not known or withheld.
    head, lines
        The same in few columns, as texts.
    notes
        How to read it.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    records: list[list[Any]]
    head: tuple[str, ...]
    lines: list[list[str]]
    notes: tuple[str, ...]


def handed_tables(summary: dict[str, Any]) -> list[HandedTable]:
    """Return the tables of an audit; that of features is missing where none were looked at."""
    tables = [_rates(summary)]
    return [*tables, _proxies(summary)] if any(c["proxies"] for c in summary["comparisons"].values()) else tables


def about(summary: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what a reader of the tables should know, by name."""
    renamed, m = with_display_names(summary), measure_of(summary)
    origin = summary["provenance"]
    notes = dict.fromkeys(note for c in renamed["comparisons"].values() for note in c["notes"])
    return [
        ("audit", f"{summary['channel']} by {summary['group']}"),
        ("reference", renamed["reference"]),
        ("favourable outcome", str(summary["favourable"])),
        ("intervals", interval_name(summary["settings"]["confidence"])),
        ("numbers", "units of the amount" if m.factor == 1 else "parts of one: 0.01 is a point"),
        ("data, SHA-256", origin["data_sha256"]),
        *((("made", origin["created"]),) if origin["created"] else ()),
        *((name, text) for name, text in origin["stated"].items()),
        *(("note", typed(note)) for note in notes),
        ("what it does not show", DOES_NOT_SHOW),
    ]


def _rates(summary: dict[str, Any]) -> HandedTable:
    """Return one row for each group: the reference, the audited ones, and those too small to say anything of."""
    comparisons = [c | soft_estimates(c) for c in summary["comparisons"].values()]
    first, m = comparisons[0], measure_of(summary)
    rated = ["favourable_rate", *(["criterion_rate"] if first["criterion_rates"] else [])]
    rated += [name for name in ERROR_RATES if any(_error_rate(c, name) for c in comparisons)]
    kept = [name for name in AGAINST_REFERENCE if any(c[name] is not None for c in comparisons)]
    columns = ("group", "role", "people", *(f"{name}{end}" for name in (*rated, *kept) for end in ENDS))
    who = [(first, "reference", first["reference"]), *((c, "audited", c["audited"]) for c in comparisons)]
    records = [[name, role, c["rows"][role], *_estimates(c, role, rated, kept)] for c, role, name in who] + [
        [name, "too small", *[None] * (len(columns) - 2)] for name in summary["too_small"]
    ]
    ratio = f"bracket of the gap, in {m.unit}" if first["soft_group"] else ratio_name(summary)
    head = ("group", f"people{expected(first)}", m.rate, f"{gap_name(first)}, in {m.unit}", ratio)
    lines = [_rate_line(summary, c, role, name) for c, role, name in who]
    lines += [[group_name(summary["group"], name), count(None), *[NOTHING] * 3] for name in summary["too_small"]]
    level = interval_name(summary["settings"]["confidence"])
    against = group_name(summary["group"], summary["reference"])
    words = formats.simultaneous_words(summary, summary["settings"]["confidence"])
    notes = (f"In brackets the {level}. Gap and ratio are against {against}{m.among}.", *filter(None, [words]))
    title = f"{m.rate.capitalize()}s by {summary['group']}"
    texts = [[typed(one) for one in line] for line in lines]
    return HandedTable(RATES, title, columns, records, head, texts, (*notes, DOES_NOT_SHOW))


def _error_rate(c: dict[str, Any], name: str) -> Any:
    return c["error_rates"] and c["error_rates"].get(name)


def _estimates(c: dict[str, Any], role: str, rated: list[str], kept: list[str]) -> Iterator[float | None]:
    """Yield the numbers of a group, each with the ends of its interval; the reference is not compared with itself."""
    for name in rated:
        rates = _error_rate(c, name) if name in ERROR_RATES else c[f"{name}s"]
        yield from _ends(rates and rates[role])
    for name in kept:
        yield from _ends(c[name] if role == "audited" else None)


def _ends(found: dict[str, Any] | None) -> tuple[Any, Any, Any]:
    return (None, None, None) if found is None else (found["value"], found["low"], found["high"])


def _rate_line(summary: dict[str, Any], c: dict[str, Any], role: str, name: str) -> list[str]:
    m = measure_of(c)
    is_audited = role == "audited"
    bracket = c["bracket"] if is_audited else None
    last = _shown(c["impact_ratio"] if is_audited else None, number)
    return [
        group_name(summary["group"], name),
        count(c["rows"][role]),
        _shown(c["favourable_rates"][role], m.level),
        _shown(c["gap"] if is_audited else None, m.difference),
        last if bracket is None else interval(bracket["low"], bracket["high"], m.difference),
    ]


def _shown(found: dict[str, Any] | None, shown: Shown) -> str:
    if found is None:
        return NOTHING
    return (
        shown(found["value"]) if found["low"] is None and found["high"] is None else with_interval(*_ends(found), shown)
    )


def _proxies(summary: dict[str, Any]) -> HandedTable:
    """Return one row for each audited group and feature."""
    rows = [(c, row) for c in summary["comparisons"].values() for row in c["proxies"]]
    columns = ("audited", "reference", *rows[0][1])
    records = [[c["audited"], c["reference"], *row.values()] for c, row in rows]
    m = measure_of(summary)
    several = ["audited"] if len(summary["comparisons"]) > 1 else []
    head = (*several, "feature", f"gap, in {m.unit}", "with others", "Shapley", "use", "verdict", "reason")
    lines = [
        [
            *([group_name(summary["group"], c["audited"])] if several else []),
            str(row["feature"]),
            *(_banded(row, name, m.difference) for name in ("gap", "joint", "gap_shapley")),
            "" if row["use"] is None else _banded(row, "use", lambda value: "" if value is None else m.size(value)),
            row["verdict"],
            row["reason"],
        ]
        for c, row in rows
    ]
    banded = (BANDS,) if any(row["gap_low"] is not None for _, row in rows) else ()
    title = f"Proxy evidence, in {m.unit} of the {m.output}"
    texts = [[typed(one) for one in line] for line in lines]
    return HandedTable(PROXIES, title, columns, records, head, texts, (*banded, DOES_NOT_SHOW))


def _banded(row: dict[str, Any], name: str, shown: Shown) -> str:
    value, low, high = (row[f"{name}{end}"] for end in ENDS)
    return _shown(None if value is None else {"value": value, "low": low, "high": high}, shown)
