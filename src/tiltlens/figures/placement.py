"""Labels beside marks and lines that do not lie on each other. Only for drawing."""

from __future__ import annotations

from tiltlens.figures.figure import Record

Box = tuple[float, float, float, float]
LETTER, LINE = 6.8, 14.0  # pixels of a letter and of a line of text
OFFSETS = ((11, 0, "left"), (-11, 0, "right"), (0, -15, "center"), (0, 16, "center"))
FURTHER = ((11, -13, "left"), (11, 13, "left"), (-11, -13, "right"), (-11, 13, "right"), (0, -28, "center"))
LONGEST = 215.0
MOST_SHARED = 60.0  # square pixels of a name that may lie on a thin line


def placed(
    marks: list[Record], across: float, along: float, width: float, height: float, taken: list[Box]
) -> list[Record]:
    """Return, for each mark, its name and where it stands: free of other names, marks, whiskers and what is taken.

    A name without such a place, other than the first, is left out: a reader points at the mark instead.
    """
    taken = list(taken)
    first = marks[0] if marks else None
    for mark in marks:
        taken += _mark_boxes(mark, across, along, height)
    positions = []
    for mark in marks:
        x, y = mark["reveals"] * across, height - mark["height"] * along
        wide = min(LETTER * len(mark["label"]), LONGEST)
        costs = []
        for order, (dx, dy, align) in enumerate(OFFSETS + FURTHER):
            box = _box(x + dx, y + dy, wide, align)
            costs.append((sum(_shared(box, other) for other in taken) + _outside(box, width, height), order, box))
        cost, best, box = min(costs)
        if cost > MOST_SHARED and mark is not first:
            positions.append({"name": None, "dx": 0, "dy": 0, "align": "left"})
            continue
        taken.append(box)
        dx, dy, align = (OFFSETS + FURTHER)[best]
        positions.append({"name": mark["label"], "dx": dx, "dy": dy, "align": align})
    return positions


def _mark_boxes(mark: Record, across: float, along: float, height: float) -> list[Box]:
    """Return the boxes of a mark and its whiskers."""
    x, y = mark["reveals"] * across, height - mark["height"] * along
    boxes = [(x - 7, y - 7, x + 7, y + 7)]
    if mark["reveals_low"] is not None and mark["reveals_high"] is not None:
        boxes.append((mark["reveals_low"] * across, y - 1, mark["reveals_high"] * across, y + 1))
    if mark["height_low"] is not None and mark["height_high"] is not None:
        boxes.append((x - 1, height - mark["height_high"] * along, x + 1, height - mark["height_low"] * along))
    return boxes


def _box(x: float, y: float, wide: float, align: str) -> Box:
    left = {"left": x, "right": x - wide, "center": x - wide / 2}[align]
    return (left, y - LINE / 2, left + wide, y + LINE / 2)


def _shared(a: Box, b: Box) -> float:
    """Return the area two boxes share."""
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    return wide * high if wide > 0 and high > 0 else 0.0


def _outside(box: Box, width: float, height: float) -> float:
    beyond = max(0.0, -box[0]) + max(0.0, box[2] - width) + max(0.0, -box[1]) + max(0.0, box[3] - height)
    return 20.0 * beyond


def spread(values: list[float], least: float) -> list[float]:
    """Return the places moved apart to be at least `least` from each other, in the same order, and no further."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    blocks: list[list[float]] = []  # sum of the wished starts, members
    for rank in range(len(order)):
        blocks.append([values[order[rank]], 1.0])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] + least * _half(blocks[-2], blocks[-1]) > (
            blocks[-1][0] / blocks[-1][1]
        ):
            wished, members = blocks.pop()
            blocks[-1][0] += wished
            blocks[-1][1] += members
    moved, rank = [0.0] * len(values), 0
    for total, members in blocks:
        for step in range(int(members)):
            moved[order[rank]] = total / members + least * (step - (members - 1) / 2)
            rank += 1
    return moved


def _half(first: list[float], second: list[float]) -> float:
    """Return how far the centres of two blocks must be apart, in steps."""
    return (first[1] + second[1]) / 2
