"""The rows as tables: Markdown for people, CSV and JSON for programs."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from planted_proxies.scoring import ASKED, HARD, QUESTIONS
from planted_proxies.worlds import GROUP, WORLDS

NOTHING = "–"
Row = Mapping[str, Any]


def percent(share: float | None) -> str:
    """Return a share in percent."""
    return NOTHING if share is None else f"{100 * share:.0f}"


def markdown(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def questions_table(rows: Sequence[Row], questions: Sequence[Any] = QUESTIONS) -> str:
    """Return the share of draws in which each question is answered rightly, by own rule / by the best cut."""
    lines = []
    for row in rows:
        if "failed" in row:
            lines.append([row["name"], row["given"], f"not run: {row['failed']}", *[""] * (len(questions) - 1)])
            continue
        cells = [row["questions"][question.name] for question in questions]
        lines.append([row["name"], row["given"], *(f"{percent(c['own'])}/{percent(c['best'])}" for c in cells)])
    return markdown(["tool", "given", *(question.name for question in questions)], lines)


def sure_table(rows: Sequence[Row]) -> str:
    """Return how many questions are separated, what is called wrongly, how often intervals hold, and the time."""
    head = ["tool", "separated, own rule", "separated, best", "false evidence, %", "missed, %"]
    head += ["gap covered, %", "contributions covered, %", "direct use covered, %", "core-seconds"]
    lines = []
    for row in rows:
        if "failed" in row:
            lines.append([row["name"], f"not run: {row['failed']}", *[""] * (len(head) - 2)])
            continue
        separated = NOTHING if row["separated"] is None else f"{row['separated']} of {len(QUESTIONS)}"
        rates = [row["false_evidence"], row["missed_evidence"], *row["coverage"].values()]
        tenths = (NOTHING if rate is None else f"{100 * rate:.1f}" for rate in rates)
        lines.append(
            [row["name"], separated, f"{row['separated_at_best']} of {len(QUESTIONS)}", *tenths, _seconds(row)]
        )
    failed = [
        f"{row['name']} failed in {count} draws, which are not counted: {error}"
        for row in rows
        for error, count in row.get("errors", {}).items()
    ]
    return "\n\n".join([markdown(head, lines), *failed])


def _seconds(row: Row) -> str:
    return NOTHING if row["seconds"] is None else f"{row['seconds']:.2f}"


def words_table(found: Mapping[str, Any]) -> str:
    """Return what a tool said of each feature, in its own words, beside what is true; noise features as one."""
    said: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for draw in found["draws"]:
        known = _known(draw["world"])
        for name, answer in draw.get("answers", {}).items():
            feature = "noise" if name.startswith("noise ") else name
            if feature in known:
                said.setdefault((draw["world"], feature), []).append(answer)
    lines = []
    for (world, feature), answers in sorted(said.items(), key=lambda one: list(WORLDS).index(one[0][0])):
        carries, truth = _known(world)[feature]
        points = [truth, float(np.median([one["value"] for one in answers]))]
        counts = Counter(one["word"] or ("claimed" if one["verdict"] else "not claimed") for one in answers)
        words = "; ".join(f"{word} {percent(count / len(answers))}%" for word, count in counts.most_common(4))
        scale = 1.0 if WORLDS[world].is_amount else 100.0
        numbers = [f"{scale * number:.1f}".replace("-0.0", "0.0").replace("-", "−") for number in points]
        lines.append([world, feature, "yes" if carries else "no", *numbers, words])
    return markdown(["world", "feature", "carries", "truth", "median", "verdict of tiltlens"], lines)


def _known(world: str) -> dict[str, tuple[bool, float]]:
    """Return of every feature, of noise and of the group whether it carries, and how much."""
    known = {name: (t.carries, max(t.alone, t.joint, key=abs)) for name, t in WORLDS[world].truths.items()}
    left = WORLDS[world].adjusted_gap
    return known | {"noise": (False, 0.0), GROUP: (abs(left) > WORLDS[world].materiality, left)}


def tools_table(rows: Sequence[Row]) -> str:
    """Return what each tool was asked, its rule, and how many draws of each world it was asked about."""
    head = ["tool", "version", "asked", "own rule", "draws"]
    lines = []
    for row in rows:
        link = f"[{row['name']}]({row['page']})" if "://" in row["page"] else row["name"]
        draws = str(row["seeds"]) if "failed" not in row else NOTHING
        lines.append([link, row["version"], row["asked"], row["rule"] or "none; best cut-off only", draws])
    return markdown(head, lines)


def worlds_table() -> str:
    """Return the worlds with their truths."""
    lines = []
    for world in WORLDS.values():
        known = [(name, truth) for name, truth in world.truths.items() if truth.kind != "noise"]
        scale = 1.0 if world.is_amount else 100.0
        parts = "; ".join(f"{name} {scale * t.alone:.2f}, {scale * t.joint:.2f}" for name, t in known)
        name = world.name if world.name in ASKED else f"{world.name} (hard)"
        lines.append([name, world.says, f"{scale * world.gap:.2f}", parts.replace("-0.00", "0.00")])
    return markdown(
        ["world", "what is planted", "gap", "contribution of each feature: alone, beyond the others"], lines
    )


def comma_separated(rows: Sequence[Row]) -> str:
    """Return one line for each tool and question."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(["tool", "version", "given", "question", "own_rule", "best_cut", "draws", "failed"])
    for row in rows:
        start = [row["name"], row["version"], row["given"]]
        if "failed" in row:
            out.writerow([*start, "", "", "", 0, row["failed"]])
            continue
        for question in (*QUESTIONS, *HARD):
            cell = row["questions"][question.name]
            out.writerow([*start, question.name, cell["own"], cell["best"], cell["draws"], ""])
    return text.getvalue()
