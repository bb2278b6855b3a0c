"""The demo's page on the terminal: the paper's experiment, its numbers beside the cross-fitted ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from tiltlens import formats
from tiltlens.render.terminal import proxy_evidence
from tiltlens.render.text_blocks import (
    DOES_NOT_SHOW,
    bullets,
    empty_table,
    estimate_cells,
    heading,
    number,
    percent,
    points,
    whole,
)

PAPER_NAMES = {
    "rho_m": "maximal correlation of inputs and outcome",
    "a1": "overlap of f_l (inputs) and f_m (outputs)",
    "a2": "what f_l has beyond f_m",
    "b1": "pull of the output difference",
    "n_l": "weight of f_l in f~",
    "n_m": "weight of f_m in f~",
    "descent_rate": "pull towards the reference: how fast f~ lowers the objective",
}


def print_demo(summary: dict[str, Any], console: Console) -> None:
    """Print the paper's experiment: the question, the answers, how sure they are, and what they do not show."""
    for audited, c in summary["comparisons"].items():
        honest = summary["cross_fitted"]["comparisons"][audited]
        parts = [
            _asked(summary, audited, c),
            heading("How far apart are the scores?"),
            _outputs(audited, c),
            heading("Which way would the inputs have to move?"),
            _correction(audited, c),
            heading("Who lies at the ends of that direction? (the paper's Table 1)"),
            _prototypes(audited, c),
            heading("Which features carry it? (the paper's way: one fit, taken as known)"),
            _shares(c),
            heading("How sure is that?"),
            _side_by_side(c, honest),
            heading("Proxy evidence, cross-fitted, in points of the score"),
            proxy_evidence(honest, summary["cross_fitted"]["settings"]),
            heading("What this shows, and what it does not"),
            bullets(_caveats(c)),
        ]
        console.print(Group(*parts))


def _asked(summary: dict[str, Any], audited: str, c: dict[str, Any]) -> RenderableType:
    text = Text()
    text.append("tiltlens demo: the experiment of “On the Direction of Discrimination” on real data\n\n", "bold")
    text.append(
        f"A logistic model predicts re-arrest ({summary['outcome']}) from five features. It never sees race. Which way "
        f"does it lean between {audited} ({c['rows']['audited']:,} people, audited) and {c['reference']} "
        f"({c['rows']['reference']:,} people, reference) defendants, and through which features?\n"
    )
    text.append(f"Data: {summary['dataset']}, {summary['rows']['used']:,} records.", "dim")
    return text


def _outputs(audited: str, c: dict[str, Any]) -> RenderableType:
    table = empty_table("", ["value"], ["meaning"])
    rows = [
        (f"mean score, {audited}", f"{c['output']['audited']:.3f}", "predicted probability of re-arrest"),
        (f"mean score, {c['reference']}", f"{c['output']['reference']:.3f}", "the same, reference group"),
        ("gap", points(c["gap"]["value"]), "difference of the two means, in points of the score"),
        ("output divergence", f"{c['output_divergence']['value']:.5f}", "distance of the outcomes, in nats"),
        ("decisions needed", f"{c['decisions_needed']['value']:,.0f}", "to tell the groups apart, errors 5 %"),
        ("least change", f"{c['least_change']['cost']:.4f}", "of inputs that removes the gap, nats"),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _correction(audited: str, c: dict[str, Any]) -> RenderableType:
    f, ends = c["correction"], [c["prototypes"][end]["correction"] for end in ("min", "max")]
    text = Text()
    text.append(
        f"f~(x) = {f['intercept']:.4f} {f['on_log_odds']:+.4f} × log-odds of being {audited} "
        f"{f['on_score']:+.4f} × score\n",
        "bold",
    )
    text.append(
        f"f~ has mean 0 and variance 1 among {audited} defendants. Profiles with f~ > 0 are under-represented among "
        f"them, those with f~ < 0 over-represented. It runs from {ends[0]:.3f} to {ends[1]:.3f}; the "
        f"largest valid step along it is {c['epsilon_max']:.3f}, and a small step lowers the objective by "
        f"{-f['descent_rate']:.4f} times its length.\n"
    )
    table = empty_table("name", ["value"], ["meaning"])
    for name, meaning in PAPER_NAMES.items():
        table.add_row(name, f"{f[name]:.5f}", meaning)
    return Group(text, table)


def _prototypes(audited: str, c: dict[str, Any]) -> RenderableType:
    p = c["prototypes"]
    table = empty_table("feature", [], ["f~ largest", "f~ smallest", "f~ nearest 0"], folds=True)
    for feature in p["max"]["values"]:
        table.add_row(feature, *(str(p[key]["values"][feature]) for key in ("max", "min", "near_zero")))
    table.add_section()
    table.add_row("value of f~", *(f"{p[key]['correction']:+.3f}" for key in ("max", "min", "near_zero")))
    table.add_row(f"{audited} people", *(f"{p[key]['count']:,}" for key in ("max", "min", "near_zero")))
    return table


def _shares(c: dict[str, Any]) -> RenderableType:
    table = empty_table("feature", ["share", "inputs only", "outputs only"], folds=True)
    for row in c["proxies"]:
        ends = (row["share"], row["share_inputs"], row["share_outputs"])
        table.add_row(row["feature"], *(percent(value) for value in ends))
    note = Text(
        "Share: the part of the correction that moving this feature's distribution alone could achieve. Features "
        "overlap, so shares do not add up to 100 %. “Inputs only” aligns who the people are, “outputs only” aligns the "
        "scores; the first column weighs both alike.",
        "dim",
    )
    return Group(table, note)


def _side_by_side(c: dict[str, Any], honest: dict[str, Any]) -> RenderableType:
    table = empty_table("quantity", ["paper", "cross-fitted", "95 % interval"])
    rows: list[tuple[str, str, Callable[[float | None], str]]] = [
        ("gap, in points", "gap", points),
        ("output divergence", "output_divergence", number),
        ("input divergence", "input_divergence", number),
        ("descent rate", "descent_rate", number),
        ("decisions needed", "decisions_needed", whole),
    ]
    for name, key, shown in rows:
        table.add_row(name, shown(c[key]["value"]), *estimate_cells(honest[key], shown))
    theirs = {row["feature"]: row for row in c["proxies"]}
    for row in honest["proxies"]:
        ends = formats.interval(row["share_low"], row["share_high"], percent)
        table.add_row(
            f"share of {row['feature']}", percent(theirs[row["feature"]]["share"]), percent(row["share"]), ends
        )
    note = Text(
        "The paper fits one membership model on all rows and takes it as known: what it learns from noise counts as "
        "difference. Cross-fitted numbers use models that have not seen the rows they are used on, remove the "
        "first-order error that is left, and choose the kind of model by held-out data "
        f"(here: {honest['membership']}). Where the two differ, the cross-fitted one is the one to believe.",
        "dim",
    )
    return Group(table, note)


def _caveats(c: dict[str, Any]) -> list[str]:
    first, last = c["proxies"][0], c["proxies"][-1]
    smallest = min(cell["count"] for cell in c["prototypes"].values())
    return [
        f"{first['feature']} is the strongest potential proxy: both groups' records and the scores follow it, "
        "whichever way inputs and outputs are weighed.",
        f"{last['feature']} looks negligible at equal weights ({percent(last['share'])}), but carries "
        f"{percent(last['share_outputs'])} when only the scores are to be aligned: one setting alone misleads.",
        f"A corner of the table can rest on very few people (here as few as {smallest}); read it as an illustration.",
        DOES_NOT_SHOW,
    ]
