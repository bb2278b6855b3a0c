"""The demo's summary as text for a reader."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

PAPER_NAMES = {
    "rho_m": "maximal correlation of inputs and outcome",
    "a1": "overlap of f_l (inputs) and f_m (outputs)",
    "a2": "what f_l has beyond f_m",
    "b1": "pull of the output difference",
    "n_l": "weight of f_l in f~",
    "n_m": "weight of f_m in f~",
    "descent_rate": "Delta, how fast f~ lowers the objective",
}


def print_demo(summary: dict[str, Any], console: Console) -> None:
    """Print the paper's experiment: the question, the answers, and what they do and do not show."""
    for audited, comparison in summary["comparisons"].items():
        console.print(demo_text(summary, audited, comparison))


def demo_text(summary: dict[str, Any], audited: str, c: dict[str, Any]) -> RenderableType:
    """Return the demo's text for one comparison."""
    return Group(
        _asked(summary, audited, c),
        _heading("How far apart are the scores?"),
        _outputs(audited, c),
        _heading("Which way would the inputs have to move?"),
        _correction(audited, c),
        _heading("Who lies at the ends of that direction?"),
        _prototypes(audited, c),
        _heading("Which features carry it?"),
        _shares(c),
        _heading("What this shows, and what it does not"),
        _caveats(audited, c),
    )


def _asked(summary: dict[str, Any], audited: str, c: dict[str, Any]) -> RenderableType:
    text = Text()
    text.append("tiltmeter demo: the experiment of “On the Direction of Discrimination” on real data\n\n", "bold")
    text.append(
        f"A logistic model predicts re-arrest ({summary['outcome']}) from five features. It never sees race. Which way "
        f"does it lean between {audited} ({c['rows']['audited']:,} people, audited) and {c['reference']} "
        f"({c['rows']['reference']:,} people, reference) defendants, and through which features?\n"
    )
    text.append(f"Data: {summary['dataset']}, {summary['rows']['used']:,} records.", "dim")
    return text


def _outputs(audited: str, c: dict[str, Any]) -> RenderableType:
    table = _table("", "value", "meaning")
    rows = [
        (f"mean score, {audited}", f"{c['output']['audited']:.3f}", "predicted probability of re-arrest"),
        (f"mean score, {c['reference']}", f"{c['output']['reference']:.3f}", "the same, reference group"),
        ("gap", f"{c['gap']['value']:+.3f}", "difference of the two means"),
        ("output divergence", f"{c['output_divergence']['value']:.5f}", "KL of the outcomes, in nats"),
        ("decisions needed", f"{c['decisions_needed']:,}", "to tell the groups apart, errors 5 %"),
        ("least change", f"{c['least_change']['cost']:.4f}", "of inputs that removes the gap, nats"),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _correction(audited: str, c: dict[str, Any]) -> RenderableType:
    f = c["correction"]
    text = Text()
    text.append(
        f"f~(x) = {f['intercept']:.4f} {f['on_log_odds']:+.4f} × log-odds of being {audited} "
        f"{f['on_score']:+.4f} × score\n",
        "bold",
    )
    text.append(
        f"f~ has mean 0 and variance 1 among {audited} defendants. Records with f~ > 0 would have to become more "
        f"common among them, those with f~ < 0 rarer. It runs from {f['smallest']:.3f} to {f['largest']:.3f}; the "
        f"largest valid step along it is {c['epsilon_max']:.3f}, and a small step lowers the objective by "
        f"{-f['descent_rate']:.4f} times its length.\n"
    )
    table = _table("name", "value", "meaning")
    for name, meaning in PAPER_NAMES.items():
        table.add_row(name, f"{f[name]:.5f}", meaning)
    return Group(text, table)


def _prototypes(audited: str, c: dict[str, Any]) -> RenderableType:
    p = c["prototypes"]
    table = _table("feature", "f~ largest", "f~ smallest", "f~ nearest 0", numbers=False)
    for feature in p["max"]["values"]:
        table.add_row(feature, *(str(p[key]["values"][feature]) for key in ("max", "min", "near_zero")))
    table.add_section()
    table.add_row("value of f~", *(f"{p[key]['correction']:+.3f}" for key in ("max", "min", "near_zero")))
    table.add_row(f"{audited} people", *(f"{p[key]['count']:,}" for key in ("max", "min", "near_zero")))
    return table


def _shares(c: dict[str, Any]) -> RenderableType:
    table = _table("feature", "share", "inputs only", "outputs only")
    for row in c["proxies"]:
        ends = (row["share"], row["share_inputs_only"], row["share_outputs_only"])
        table.add_row(row["feature"], *(f"{100 * value:.1f} %" for value in ends))
    note = Text(
        "Share: the part of the correction that moving this feature's distribution alone could achieve. Features "
        "overlap, so shares do not add up to 100 %. “Inputs only” aligns who the people are, “outputs only” aligns the "
        "scores; the first column weighs both alike.",
        "dim",
    )
    return Group(table, note)


def _caveats(audited: str, c: dict[str, Any]) -> RenderableType:
    first, last = c["proxies"][0], c["proxies"][-1]
    smallest = min(cell["count"] for cell in c["prototypes"].values())
    lines = [
        f"{first['feature']} is the strongest proxy evidence: both groups' records and the scores follow it, whichever "
        "way inputs and outputs are weighed.",
        f"{last['feature']} looks negligible at equal weights ({100 * last['share']:.1f} %), but carries "
        f"{100 * last['share_outputs_only']:.1f} % when only the scores are to be aligned: one setting alone misleads.",
        f"A corner of the table can rest on very few people (here as few as {smallest}); read it as an illustration.",
        "The numbers are associations in one fixed data set and treat the fitted models as known: they carry no "
        "intervals, show no cause, and are no verdict on the model or on any person.",
    ]
    table = Table.grid(padding=(0, 1))
    for line in lines:
        table.add_row("•", line)
    return table


def _heading(title: str) -> RenderableType:
    return Text(f"\n{title}", "bold cyan")


def _table(first: str, *others: str, numbers: bool = True) -> Table:
    table = Table(show_edge=False, pad_edge=False, header_style="bold")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="left" if name == "meaning" or not numbers else "right")
    return table
