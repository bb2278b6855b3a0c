"""Documents: what a result says, in blocks that renderers turn into their output; and names as readers see them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeVar

import polars as pl

from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.verdicts import Verdict
from tiltlens._formats import interval_name, label, minus, sentence
from tiltlens._repair.alternatives import Alternatives
from tiltlens._repair.constraints import Constraint, TiltSummary
from tiltlens._results.audit import Audit
from tiltlens._results.change import Change, GroupChange
from tiltlens._results.comparison import Comparison
from tiltlens._results.monitor import Monitor
from tiltlens._results.outputs import Contribution, Rates
from tiltlens._rows.wording import WORDING, Measure, measure_for

HEADLINE, QUIET, WARNING = "headline", "quiet", "warning"  # tones of a paragraph
NAME, NUMBER, TEXT = "name", "number", "text"  # kinds of columns


@dataclass(frozen=True, slots=True)
class Heading:
    """A title above the blocks that follow; level 2 begins a section."""

    text: str
    level: int = 3


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A few sentences."""

    text: str
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: a text, its confidence interval, and a mark such as the kind of a verdict."""

    text: str
    interval: str = ""
    mark: str = ""
    value: float | None = None  # unrounded, for machine-readable output


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table. Optional columns are dropped if space is short, the last one first."""

    label: str
    kind: str = NUMBER
    is_optional: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table. `interval` names the intervals in its cells."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    interval: str = ""

    @classmethod
    def of(cls, name: str, heads: Iterable[object], rows: Iterable[Iterable[object]], interval: str = "") -> Table:
        """Return a table from columns and cells, or texts: the first column has names, others numbers."""
        columns = (
            head if isinstance(head, Column) else Column(str(head), NUMBER if index else NAME)
            for index, head in enumerate(heads)
        )
        cells = (tuple(cell if isinstance(cell, Cell) else Cell(str(cell)) for cell in row) for row in rows)
        return cls(name, tuple(columns), tuple(cells), interval)


@dataclass(frozen=True, slots=True)
class FigureRef:
    """A figure by its name, with the objects that it draws."""

    name: str
    parts: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Details:
    """Blocks that most readers do not need; folded where the output allows it."""

    title: str
    blocks: tuple[Block, ...]


Block = Heading | Paragraph | Bullets | Table | FigureRef | Details


@dataclass(frozen=True, slots=True)
class Document:
    """A titled list of blocks."""

    title: str
    blocks: tuple[Block, ...]


def headed(lines: Sequence[str]) -> list[Block]:
    """Return sentences as paragraphs, of which the first is the headline."""
    return [Paragraph(lines[0], HEADLINE), *map(Paragraph, lines[1:])]


def pair_blocks(pair: Pair, lines: Sequence[str]) -> list[Block]:
    """Return the start of the section on an audited group and the reference: the heading and sentences."""
    return [Heading(f"{label(pair.audited)} (audited) vs {label(pair.reference)} (reference)", 2), *headed(lines)]


def warnings(notes: Iterable[str]) -> list[Block]:
    """Return notes as a list of warnings."""
    return bullets([minus(sentence(note)) for note in notes], "Warnings")


def bullets(items: Sequence[str], title: str = "") -> list[Block]:
    """Return a titled list; nothing if there are no items."""
    head: list[Block] = [Heading(title)] if title else []
    return [*head, Bullets(tuple(items))] if items else []


Result = Audit | Change | Comparison | GroupChange
BOTH = ("audited", "reference")
SAME = 1e-9  # largest difference between a mean and a rate that are the same number


def group_of(c: Comparison | GroupChange, role: str) -> str:
    """Return the name of the group in a role, "audited" or "reference"."""
    return c.audited if role == "audited" else c.reference


def first_of(result: Result) -> Comparison | GroupChange | None:
    """Return the first comparison of an audit or change (None if it has none), or the given comparison itself."""
    if isinstance(result, Comparison | GroupChange):
        return result
    comparisons: list[Comparison | GroupChange] = [*result.comparisons.values()]
    return comparisons[0] if comparisons else None


def measure_of(result: Result) -> Measure:
    """Return the words, units and formats for the numbers of a result."""
    if (c := first_of(result)) is None:
        return measure_for(result.score_type if isinstance(result, Audit | Change) else result.scale.score_type)
    measure = measure_for(c.scale.score_type, c.scale.metric, c.scale.wording)
    is_rate = measure.each == "decision" and measure.favoured and not measure.among
    return replace(measure, mean=measure.rate) if is_rate and is_favourable_mean(c) else measure


def metric_of(result: Result) -> str | None:
    """Return the audited error rate, or None."""
    c = first_of(result)
    return None if c is None else c.scale.metric


def level_of(c: Comparison | GroupChange) -> str:
    """Return the name of the intervals of a comparison, such as "95% CI"."""
    return interval_name(c.scale.confidence)


def subject(result: Result) -> str:
    """Return what was audited: the scores, decisions or amounts, or an error rate of theirs."""
    measure = measure_of(result)
    return f"{measure.output}s of {measure.each}s" if metric_of(result) else f"{measure.each}s"


def is_favourable_mean(c: Comparison | GroupChange) -> bool:
    """Return whether the means behind the gap are favourable rates, or amounts of which more is better."""
    if isinstance(c, GroupChange):
        return False
    pairs = zip(c.outputs.means, c.outputs.rates, strict=True)  # of several classes, only the favourable one
    return all(isinstance(mean, tuple) or abs(mean - rate.value) < SAME for mean, rate in pairs)


def means(c: Comparison) -> tuple[float, float]:
    """Return the two means whose difference is the gap; for more than two classes, of the favourable class."""
    audited, reference = (
        rate.value if isinstance(mean, tuple) else mean
        for mean, rate in zip(c.outputs.means, c.outputs.rates, strict=True)
    )
    return audited, reference


def mean_estimates(c: Comparison) -> Rates:
    """Return the two means behind the gap with their intervals: 1 minus the rates if low scores are favourable."""
    if c.outputs.metric_rates is not None:
        return c.outputs.metric_rates
    return c.outputs.rates if is_favourable_mean(c) else Rates(*map(_opposite, c.outputs.rates))


def _opposite(rate: Estimate) -> Estimate:
    low, high = (None if end is None else 1.0 - end for end in (rate.high, rate.low))
    return Estimate(1.0 - rate.value, low, high)


def by_gap(audit: Audit) -> Audit:
    """Return the audit with clearly disadvantaged groups first, each part sorted by the size of the gap."""
    widest = sorted(audit.items(), key=lambda pair: -abs(pair[1].gap.value))
    return replace(audit, comparisons=dict(sorted(widest, key=lambda pair: not fares_worse(pair[1]))))


def fares_worse(c: Comparison) -> bool:
    """Return whether the shortfall is above 0 within its interval; False for unobserved groups, which have none."""
    if c.shortfall is None:
        return False
    return (c.shortfall.value if c.shortfall.low is None else c.shortfall.low) > 0.0


SHORT = 40  # maximum number of characters of a name in a sentence
GROUP = 26  # the same for a group followed by its role
DRAWN = 28  # the same for the label of a row in a figure
Compared = Comparison | GroupChange


class Pair(Protocol):
    """Anything about an audited group and a reference."""

    @property
    def audited(self) -> str | None:
        """Its name."""

    @property
    def reference(self) -> str:
        """Its name."""


def labels(names: Iterable[str], longest: int = DRAWN) -> list[str]:
    """Return distinct names of limited length for a figure."""
    texts = [label(name, longest) or "(empty)" for name in names]
    used, taken = {_seen(text) for text in texts}, set[str]()  # a numbered name must differ from all others
    distinct = []
    for text in texts:
        candidate, count = text, 1
        while _seen(candidate) in taken or (count > 1 and _seen(candidate) in used):
            count += 1
            candidate = f"{text} ({count})"
        taken.add(_seen(candidate))
        distinct.append(candidate)
    return distinct


def _seen(text: str) -> str:
    """Return the text as displayed on a page, which merges spaces."""
    return " ".join(text.split())


def groups(pair: Pair) -> tuple[str, str]:
    """Return the names of both groups with their roles."""
    return f"{label(pair.audited, GROUP)} (audited)", f"{label(pair.reference, GROUP)} (reference)"


def versus(pair: Pair) -> str:
    """Return both groups with their roles: "A (audited) vs B (reference)"."""
    return " vs ".join(groups(pair))


def has_noun(result: Result) -> bool:
    """Return whether the user named the people, such as "applicants"."""
    return measure_of(result).people != WORDING.people


def group_words(c: Compared, role: str) -> str:
    """Return a group as in a sentence: "Black applicants", or its name alone if the user did not name the people."""
    name, people = label(group_of(c, role), SHORT), measure_of(c).people
    if not has_noun(c) or name.casefold() == people.casefold():
        return name
    is_adjective = name[:1].isalpha() and "=" not in name
    return f"{name} {people}" if is_adjective else f"{people} ({name})"


def strongest(count: int, count_shown: int) -> str:
    """Return a note on how many features are shown, or "" if all are."""
    return f"the {count_shown} strongest of {count} features" if count > count_shown else ""


def disadvantage_sign(c: Compared) -> int:
    """Return 1 if a positive gap disadvantages the audited group, −1 if a negative one does."""
    if isinstance(c, Comparison):
        return -1 if is_favourable_mean(c) and not c.scale.wants_less else 1
    gap, audited, reference = (c.old[key] for key in ("gap", "audited_rate", "reference_rate"))
    if gap is None or audited is None or reference is None:
        return -1
    return 1 if gap * (audited - reference) < 0.0 else -1  # these rates are favourable


def disadvantage_words(c: Compared) -> tuple[str, str]:
    """Return the label for the direction of an axis of gaps, and the end at which it belongs."""
    who = group_words(c, "audited")
    words = f"disadvantage of {who if len(who) <= SHORT else 'the audited group'}"
    return (f"{words} →", "end") if disadvantage_sign(c) > 0 else (f"← {words}", "start")


JOINT = " & "  # joins the columns, and the values, of an intersection
BARE = {"yes", "no", "true", "false", "none", "null"}
WORD = re.compile(r"[^\W\d_]{2}")
T = TypeVar("T")
Named = TypeVar("Named", Comparison, GroupChange, TiltSummary, Constraint, Alternatives)


def group_name(column: str, value: str) -> str:
    """Return the name of a group: its value, or "column = value" for numbers, single letters, yes and no."""
    columns, values = column.split(JOINT), value.split(JOINT)
    if len(columns) != len(values):
        columns, values = [column], [value]
    return JOINT.join(
        f"{name} = {part}" if part.casefold() in BARE or not WORD.search(part) else part
        for name, part in zip(columns, values, strict=True)
    )


def named(audit: Audit) -> Audit:
    """Return an audit for display: with readable group names, and without the sizes of groups too small."""
    audit, column, monitor = audit.disclosed(), audit.group, audit.monitor
    if monitor is not None:
        names = {name: group_name(column, name) for name in monitor.looks["audited"].unique()}
        looks = monitor.looks.with_columns(pl.col("audited").replace(names))
        monitor = Monitor(looks, _by_name(monitor.sequences, column))
    comparisons = {name: _named_comparison(c, column) for name, c in audit.items()}
    return replace(
        audit,
        reference=group_name(column, audit.reference),
        too_small=_by_name(audit.too_small, column),
        comparisons=_by_name(comparisons, column),
        monitor=monitor,
    )


def renamed(part: Named, column: str) -> Named:
    """Return a part of a result with readable names of its groups."""
    audited, reference = (group_name(column, str(name)) for name in (part.audited, part.reference))
    return replace(part, audited=audited, reference=reference)


def _by_name(parts: Mapping[str, T], column: str) -> dict[str, T]:
    return {group_name(column, name): part for name, part in parts.items()}


def _named_comparison(c: Comparison, column: str) -> Comparison:
    text, end = pl.col("direction"), f" among {c.audited}"
    c = renamed(c, column)
    who = f" among {group_words(c, 'audited')}"
    direction = pl.when(text.str.ends_with(end)).then(text.str.strip_suffix(end) + who).otherwise(text)
    return replace(c, contributions_full=c.contributions_full.with_columns(direction))


def named_change(change: Change) -> Change:
    """Return a change with readable names of groups."""
    column = change.group
    return replace(
        change,
        reference=group_name(column, change.reference),
        too_small=_by_name(change.too_small, column),
        comparisons=_by_name({name: renamed(c, column) for name, c in change.comparisons.items()}, column),
    )


# Kinds of verdicts, which determine their marks.
EVIDENCE, THE_GROUP, STAND_IN, OPEN, NOTHING, EXEMPT = "evidence", "group", "stand-in", "open", "nothing", "exempt"


class Meaning(NamedTuple):
    """The kind of a verdict ("open" if the data do not decide), and its meaning."""

    kind: str
    meaning: str


VERDICTS = {
    Verdict.IDENTIFIES_GROUP: Meaning(
        THE_GROUP, "The feature is the group, a copy or recoding of it, or its values separate the groups completely."
    ),
    Verdict.POTENTIAL_PROXY: Meaning(
        EVIDENCE,
        "The whole band of the contribution alone lies beyond the materiality threshold, and the score uses the "
        "feature. A reason to look, never a finding.",
    ),
    Verdict.IN_COMBINATION: Meaning(
        EVIDENCE,
        "The whole band of the contribution beyond the others lies beyond the materiality threshold, and the score "
        "uses the feature.",
    ),
    Verdict.PROXY_OR_STAND_IN: Meaning(
        OPEN,
        "A contribution exceeds the materiality threshold, but the data do not show whether the score uses the "
        "feature.",
    ),
    Verdict.STAND_IN: Meaning(
        STAND_IN,
        "A contribution exceeds the materiality threshold, but the score does not use the feature. Removing it "
        "would change nothing.",
    ),
    Verdict.SIZE_UNCLEAR: Meaning(OPEN, "A band excludes 0, but includes values below the materiality threshold."),
    Verdict.INCONCLUSIVE: Meaning(
        OPEN, "A band includes 0 and reaches beyond the materiality threshold: more rows are needed."
    ),
    Verdict.NO_MATERIAL_CONTRIBUTION: Meaning(
        NOTHING, "Both bands, alone and beyond the others, lie within the materiality threshold."
    ),
    Verdict.EXEMPT: Meaning(
        EXEMPT, "The feature was declared an exempt factor. The gap through it is reported separately."
    ),
    Verdict.NOT_ASSESSED: Meaning(
        OPEN, "The feature could not be assessed, for the reason given. It may still contribute."
    ),
}


def kind_of(row: Contribution) -> str:
    """Return the kind of a feature's verdict."""
    return VERDICTS[row.verdict].kind
