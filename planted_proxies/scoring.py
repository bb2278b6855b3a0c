"""The scoring rule: what a tool is asked, and how its answers are counted.

A question names features that carry and features that do not. It is answered rightly in a draw where all of the first
and none of the second are called evidence: whoever calls everything, or nothing, is never right. It is counted

- by the tool's own rule, where it has one;
- by the best cut: the threshold on |value| that is right in most draws, chosen with the truth in hand.

The second is the most that anybody could get out of the tool's numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from planted_proxies.runners import GAP, Answer
from planted_proxies.worlds import GROUP, WORLDS

Answers = Mapping[str, Answer]
ROUNDING = 1e-9
STAND_INS = ("stand-in 0.5", "stand-in", "stand-in 0.95")
USED_LITTLE = ("used a little 1", "used a little 2")
SURE = 0.9  # of draws: from there on a question counts as separated


class Question(NamedTuple):
    """Which features of a world should be called evidence, and which should not; those of a twin are the second."""

    name: str
    world: str
    carriers: tuple[str, ...]
    idle: tuple[str, ...]
    twin: str | None = None


def _all_idle(world: str) -> tuple[str, ...]:
    """Return the features that carry nothing; what a moderator carries is a matter of words."""
    truths = WORLDS[world].truths
    return tuple(name for name, truth in truths.items() if not truth.carries and truth.kind != "moderator")


def _noise(world: str) -> tuple[str, ...]:
    return tuple(WORLDS[world].noises)


QUESTIONS = (
    Question("used, noise", "table", ("used",), _noise("table")),
    Question("ignored", "table", ("used",), ("ignored",)),
    Question("neutral", "table", ("used",), ("neutral",)),
    Question("redundant", "table", ("copy", "other copy"), _noise("table")),
    Question("XOR", "pair", ("left", "right"), _noise("pair")),
    Question("direct use", "direct", (GROUP,), (GROUP,), twin="not direct"),
    Question("amounts", "amounts", ("used",), ("ignored", "neutral", *_noise("amounts"))),
    Question("unobserved groups", "unobserved groups", ("used",), ("ignored", "neutral", *_noise("unobserved groups"))),
    *(Question(name, name, ("used",), ("stand-in", "neutral", *_noise(name))) for name in STAND_INS),
    Question("used a little", "used a little 4", ("used", "stand-in"), ("neutral", *_noise("used a little 4"))),
    Question("scores of trees", "trees", ("used 1", "used 2"), ("unused 1", "unused 2", *_noise("trees"))),
    Question("use varies", "varying", (GROUP,), ("mark", *_noise("varying"))),
    Question("three-way XOR", "triple", ("one", "two", "three"), _noise("triple")),
)
HARD = (
    *(Question(name, name, ("used", "stand-in"), ("neutral", *_noise(name))) for name in USED_LITTLE),
    Question("product of signs", "signs", ("left", "right"), _noise("signs")),
)
ASKED = tuple(dict.fromkeys(w for q in QUESTIONS for w in (q.world, q.twin) if w))  # worlds of the questions


class RightAnswers(NamedTuple):
    """Shares of draws in which a question is answered rightly; None where a tool has no such answer."""

    own: float | None
    best: float | None
    draws: int


def right_answers(question: Question, draws: Mapping[str, Mapping[int, Answers]]) -> RightAnswers:
    """Return how often a question is answered rightly, from a tool's answers by world and seed."""
    asked = draws.get(question.world, {})
    other = draws.get(question.twin, {}) if question.twin else asked
    pairs = [(asked[seed], other[seed]) for seed in asked if seed in other]
    found = [
        ([a[name] for name in question.carriers], [b[name] for name in question.idle])
        for a, b in pairs
        if all(name in a for name in question.carriers) and all(name in b for name in question.idle)
    ]
    if not found:
        return RightAnswers(None, None, 0)
    own = None
    if all(one.verdict is not None for carriers, idle in found for one in (*carriers, *idle)):
        right = [all(c.verdict for c in carriers) and not any(i.verdict for i in idle) for carriers, idle in found]
        own = sum(right) / len(found)
    return RightAnswers(own, best_cut(found), len(found))


def best_cut(found: Iterable[tuple[list[Answer], list[Answer]]]) -> float:
    """Return the largest share of draws that one threshold on |value| separates."""
    ends = [(min(abs(c.value) for c in carriers), max(abs(i.value) for i in idle)) for carriers, idle in found]
    return max(sum(high >= cut > low for high, low in ends) for cut, _ in ends) / len(ends)


def false_evidence(draws: Mapping[str, Mapping[int, Answers]], worlds: Iterable[str] = ASKED) -> float | None:
    """Return the share of features that carry nothing and are called evidence by the tool's own rule."""
    verdicts = [
        answers[name].verdict
        for world in worlds
        for answers in draws.get(world, {}).values()
        for name in _all_idle(world)
        if name in answers
    ]
    known = [one for one in verdicts if one is not None]
    return sum(known) / len(known) if known else None


def missed_evidence(draws: Mapping[str, Mapping[int, Answers]], worlds: Iterable[str] = ASKED) -> float | None:
    """Return the share of features that carry and are not called evidence by the tool's own rule."""
    known = [
        answers[name].verdict
        for world in worlds
        for answers in draws.get(world, {}).values()
        for name, truth in WORLDS[world].truths.items()
        if truth.carries and name in answers and answers[name].verdict is not None
    ]
    return 1 - sum(map(bool, known)) / len(known) if known else None


def coverage(draws: Mapping[str, Mapping[int, Answers]], takes_chances: bool) -> dict[str, float | None]:
    """Return how often intervals hold the truth: of the gap, of parts through one feature, of direct use.

    Of unobserved groups only where a tool takes probabilities.
    """
    held: dict[str, list[bool]] = {"gap": [], "alone": [], "direct": []}
    for world in ASKED:
        if WORLDS[world].signal and not takes_chances:
            continue
        truths: dict[str, tuple[str, float]] = {GAP: ("gap", WORLDS[world].gap)}
        truths |= {name: ("alone", truth.alone) for name, truth in WORLDS[world].truths.items()}
        truths |= {GROUP: ("direct", WORLDS[world].adjusted_gap)}
        for answers in draws.get(world, {}).values():
            for name, answer in answers.items():
                if answer.low is not None and answer.high is not None:
                    which, truth = truths[name]
                    held[which].append(answer.low - ROUNDING <= truth <= answer.high + ROUNDING)
    return {name: float(np.mean(values)) if values else None for name, values in held.items()}


def scored(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a tool from what `ask` wrote of it: see `planted_proxies.asking`."""
    row = {key: found[key] for key in ("name", "version", "page", "asked", "given", "rule", "seeds")}
    if found.get("failed"):
        return row | {"failed": found["failed"]}
    draws = answers_of(found)
    seconds = [one["seconds"] for one in found["draws"] if "seconds" in one and one["world"] in ASKED]
    questions = {q.name: right_answers(q, draws)._asdict() for q in (*QUESTIONS, *HARD)}
    easy = [max(questions[q.name][how] or 0.0 for how in ("own", "best")) for q in QUESTIONS]
    return row | {
        "questions": questions,
        "separated": len(QUESTIONS) - len(not_separated({"questions": questions})) if found["rule"] else None,
        "separated_at_best": sum(one >= SURE for one in easy),
        "false_evidence": false_evidence(draws),
        "missed_evidence": missed_evidence(draws),
        "coverage": coverage(draws, found["takes_chances"]),
        "seconds": float(np.median(seconds)) if seconds else None,
        "errors": dict(Counter(one["error"] for one in found["draws"] if "error" in one)),
    }


def not_separated(row: Mapping[str, Any]) -> list[str]:
    """Return the questions that a tool's own rule does not separate."""
    asked = row.get("questions", {})
    return [q.name for q in QUESTIONS if (asked.get(q.name, {}).get("own") or 0.0) < SURE]


def answers_of(found: Mapping[str, Any]) -> dict[str, dict[int, dict[str, Answer]]]:
    """Return a tool's answers by world and seed."""
    draws: dict[str, dict[int, dict[str, Answer]]] = {}
    for one in found["draws"]:
        if "answers" in one:
            answers = {name: Answer.read(answer) for name, answer in one["answers"].items()}
            draws.setdefault(one["world"], {})[one["seed"]] = answers
    return draws
