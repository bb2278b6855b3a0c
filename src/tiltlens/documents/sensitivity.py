"""How strong an omitted factor would have to be: the answer, and the listed features as yardsticks."""

from __future__ import annotations

from collections.abc import Iterator

from tiltlens.analysis.sensitivity import Sensitivity
from tiltlens.documents.document import NAME, QUIET, Block, Cell, Column, Heading, Paragraph, Table
from tiltlens.documents.measures import measure_of
from tiltlens.documents.quantities import estimate_words, fill, quantity
from tiltlens.estimators.verdicts import Materiality, is_beyond_zero, materiality
from tiltlens.formats import NOTHING, label, percent
from tiltlens.results.comparison import Comparison

COLUMNS = ("r2_score", "r2_group", "multiple")
MOST_SHOWN = 5  # features, the strongest first
LARGE = 100  # times as strong, beyond which the number says nothing more
HOLDS = (
    "This bound holds for an omitted factor of any form. It does not show that there is one, and it does not cover "
    "errors in the group labels or in the data."
)


def sensitivity_blocks(c: Comparison) -> list[Block]:
    """Return the sensitivity of the adjusted gap, and of the gap given exempt factors, to an omitted factor."""
    blocks: list[Block] = [Heading("Sensitivity to an omitted factor")] if c.gap_parts.sensitivity else []
    for key, sensitivity in c.gap_parts.sensitivity.items():
        lines = [*sensitivity_words(c, key)]
        blocks.append(Paragraph(" ".join(lines)))
        if len(lines) > 1:
            blocks += [_yardsticks(c, sensitivity), Paragraph(HOLDS, QUIET)]
    return blocks


def sensitivity_words(c: Comparison, key: str) -> Iterator[str]:
    """Yield what an omitted factor would need; one sentence where none is needed."""
    sensitivity, m, name = c.gap_parts.sensitivity[key], measure_of(c), quantity(key).label
    gap = sensitivity.gap
    if materiality(gap.low, gap.high, c.scale.materiality) is Materiality.NOT_MATERIAL:
        yield f"The {name} is within the materiality threshold, so an omitted factor has nothing to account for."
        return
    if not is_beyond_zero(gap.low, gap.high):
        yield f"The {name} is inconclusive: its interval includes 0 already, without an omitted factor."
        return
    value = sensitivity.robustness_value
    yield (
        f"To account for the {name} of {estimate_words(gap, m)}, an omitted factor would have to explain "
        f"{percent(value.value)} of the remaining variance of both the {m.each}s and group membership. From "
        f"{percent(value.low)} on, the interval of the {name} would include 0."
    )
    strongest = next(((row, row.multiple) for row in sensitivity.yardsticks if row.multiple is not None), None)
    if strongest is None:
        yield "No listed feature is related to both, so none serves as a yardstick."
        return
    row, multiple = strongest
    feature, times = label(row.feature), times_words(multiple)
    if multiple * row.r2_score > 1.0:
        yield (
            f"Even a factor that explains all the remaining variance of the {m.each}s would have to be about {times} "
            f"as strongly related to the group as {feature}."
        )
    else:
        yield f"It would have to be about {times} as strong as {feature}, the strongest listed feature."


def times_words(multiple: float) -> str:
    """Return how many times as strong: "2.4 times", "more than 100 times"."""
    if multiple > LARGE:
        return f"more than {LARGE} times"
    return f"{multiple:.1f} times" if multiple < 10 else f"{multiple:.0f} times"


def _yardsticks(c: Comparison, sensitivity: Sensitivity) -> Table:
    m = measure_of(c)
    columns = (Column("feature, given the others", NAME), *(Column(fill(quantity(key).label, m)) for key in COLUMNS))
    rows = (
        (
            Cell(label(row.feature)),
            *(Cell(percent(share), value=share) for share in (row.r2_score, row.r2_group)),
            Cell(NOTHING if row.multiple is None else times_words(row.multiple), value=row.multiple),
        )
        for row in sensitivity.yardsticks[:MOST_SHOWN]
    )
    return Table("yardsticks", columns, tuple(rows))
