"""Results as a few lines of HTML, for notebooks. Names come from data: every text is escaped."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.util import find_spec
from typing import Any

from tiltlens.documents import rule_lines
from tiltlens.documents.unobserved_groups import expected, gap_name, soft_estimates, soft_words
from tiltlens.formats import Shown, count, interval, label, minus, ratio
from tiltlens.rows.measures import Measure, measure_of

FEATURES = 10


def _shown(m: Measure, gap: str) -> dict[str, tuple[str, Shown]]:
    """Return the estimates that are shown: their words, and how they are written."""
    return {
        "gap": (f"{gap}, in {m.unit}", m.difference),
        "linear": (f"linear estimate, in {m.unit}", m.difference),
        "through_exempt": ("of it, through the exempt factors", m.difference),
        "at_equal_exempt": ("of it, between people equal in the exempt factors", m.difference),
        "impact_ratio": (f"{m.rate}s, audited ÷ reference", ratio),
        "adverse_impact_ratio": ("lower ÷ higher rate of decisions", ratio),
        "shortfall": (m.affected, m.total),
        "unexplained": (f"left between people alike in all listed features, in {m.unit}", m.difference),
    }


def audit_html(title: str, comparisons: Sequence[dict[str, Any]]) -> str:
    """Return an audit: a line about it, then its comparisons, the first with its picture."""
    parts = (comparison_html(c, is_drawn=place == 0) for place, c in enumerate(comparisons))
    return f"<div><p><b>{escape(label(title, 200))}</b></p>{''.join(parts)}</div>"


def comparison_html(c: dict[str, Any], is_drawn: bool = True) -> str:
    """Return a comparison: its estimates, its strongest features and what to know, and a picture of the features."""
    who = f"{escape(label(c['audited']))} ({count(c['rows']['audited'])}{expected(c)}, audited)"
    other = f"{escape(label(c['reference']))} ({count(c['rows']['reference'])}{expected(c)}, reference)"
    m, c = measure_of(c), c | soft_estimates(c)
    both = ("audited", "reference")
    rates = [(f"{m.mean}, {place}", m.level, c["criterion_rates"][place]) for place in both if c["criterion"]]
    rates += [(f"{m.rate}, {place}{m.among}", m.level, c["favourable_rates"][place]) for place in both]
    shown_as = _shown(m, gap_name(c).replace("gap", "difference"))
    others = [(words, shown, c[name]) for name, (words, shown) in shown_as.items() if c[name] is not None]
    estimates = [
        (words, shown(found["value"]), interval(found["low"], found["high"], shown))
        for words, shown, found in (*rates, *others)
    ]
    features = [
        (
            label(row["feature"]),
            _banded(row, "gap", m.difference),
            _banded(row, "joint", m.difference),
            row["verdict"],
            label(row["reason"], 200),
        )
        for row in c["proxies"]
    ]
    head = ("feature", f"{m.unit} by itself", "with the others", "verdict", "why")
    more, told = len(features) - FEATURES, [*soft_words(c), *c["notes"]]
    rest = f"<p>and {more} more features in <code>.proxies</code></p>" if more > 0 else ""
    return (
        f"<div><p><b>{who}</b> against <b>{other}</b></p>"
        + _table(("quantity", "value", "interval"), estimates)
        + (_picture(c) if is_drawn and features else "")
        + (_table(head, features[:FEATURES]) if features else "")
        + rest
        + (f"<ul>{''.join(f'<li>{escape(minus(label(note, 1000)))}</li>' for note in told)}</ul>" if told else "")
        + "</div>"
    )


def _picture(c: dict[str, Any]) -> str:
    """Return what goes through each feature as a picture that needs no network, nothing where nobody can draw it."""
    if any(find_spec(package) is None for package in ("altair", "vl_convert")):
        return ""
    from tiltlens.figures import comparison_figure

    figure = comparison_figure(c, "features")
    content = b64encode(figure._repr_mimebundle_()["image/svg+xml"].encode()).decode()
    return f'<img alt="{escape(figure.description)}" src="data:image/svg+xml;base64,{content}">'


def _banded(row: dict[str, Any], name: str, shown: Shown) -> str:
    ends = interval(row[f"{name}_low"], row[f"{name}_high"], shown)
    return shown(row[name]) if row[f"{name}_low"] is None else f"{shown(row[name])} ({ends})"


def rule_tables_html(summary: dict[str, Any]) -> str:
    """Return the tables of a rule: what it is, each table, and what a reader has to know."""
    rule = summary["rule"]
    tables = "".join(_rule_table(summary, table) for table in summary["tables"])
    notes = "".join(f"<li>{escape(note)}</li>" for note in (*summary["notes"], rule_lines.does_not_decide(rule)))
    return (
        f"<div><p><b>{escape(rule['title'])}</b><br>{escape(rule['citation'])} ({escape(rule['dated'])})"
        f"<br>{escape(rule_lines.status(rule))}</p>"
        f"<p>{escape(rule_lines.rows_read(summary))}</p>{tables}<ul>{notes}</ul></div>"
    )


def _rule_table(summary: dict[str, Any], table: dict[str, Any]) -> str:
    head, rows = rule_lines.rule_lines(summary, table)
    tests = "".join(_table(*lines) for lines in rule_lines.test_lines(summary, table))
    remarks = "".join(f"<p>{escape(remark)}</p>" for remark in rule_lines.test_remarks(table))
    title, unknown = escape(rule_lines.title(table)), escape(rule_lines.unknown_people(table))
    return f"<p>{title}</p>{_table(head, rows)}<p>{unknown}</p>" + tests + remarks


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    titles = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
