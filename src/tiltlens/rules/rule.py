"""A published rule as data: what it compares, its threshold, citation and date."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from tiltlens.errors import DataError, listed, nearest_name, shown
from tiltlens.formats import FieldTable
from tiltlens.paper.checks import check_share, check_threshold
from tiltlens.results.codec import from_plain

Rate = Literal["selection", "scoring"]


@dataclass(frozen=True, slots=True)
class Rule(FieldTable):
    """A rule that compares rates of groups.

    Attributes
    ----------
    id, title
        The rule's name in arguments, and its title for readers.
    compares, denominator
        What the rule compares, and the denominator of its ratios.
    rates
        "selection" (of 0/1 decisions), "scoring" (of scores above the median), or both.
    threshold
        Impact ratios below it are flagged; None where the text has none.
    smallest_share
        Groups with a smaller share of the data have no impact ratio; None where the text has none.
    attributes, intersections
        The attributes that the text names, and its rule for intersections.
    citation, dated
        Where and when it was published.
    status, status_dated, status_source
        Whether it is in force, on which date, and the source.
    does_not_decide
        What its table does not decide.
    """

    id: str
    title: str
    compares: str
    rates: tuple[str, ...]
    denominator: str
    threshold: float | None
    smallest_share: float | None
    attributes: tuple[str, ...]
    intersections: str
    citation: str
    dated: str
    status: str
    status_dated: str
    status_source: str
    does_not_decide: str


@cache
def known_rules() -> dict[str, Rule]:
    """Return the rules that ship, by id."""
    folder = files("tiltlens.rules")
    texts = [file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".json")]
    rules = [from_plain(Rule, json.loads(text)) for text in texts]
    return {rule.id: rule for rule in sorted(rules, key=lambda rule: rule.id)}


def rule_named(name: object) -> Rule:
    """Return a rule that ships."""
    rules = known_rules()
    if not isinstance(name, str) or name not in rules:
        nearest = nearest_name(name, list(rules))
        suggestion = f"did you mean {shown(nearest)}? " if nearest is not None else ""
        raise DataError(f"Unknown rule {shown(name)} (`rule`).", f"{suggestion}The rules are {listed(list(rules))}.")
    return rules[name]


def ratio_threshold_of(rule: Rule, ratio_threshold: object = None) -> float | None:
    """Return the requested threshold of impact ratios, by default the rule's."""
    if ratio_threshold is None:
        return rule.threshold
    return check_threshold(ratio_threshold, name="ratio_threshold", hint="for example 0.8.")


def smallest_share_of(rule: Rule, smallest_share: object = None) -> float:
    """Return the requested smallest share of the data, by default the rule's; 0 leaves no group out."""
    if smallest_share is None:
        return rule.smallest_share or 0.0
    return check_share("smallest_share", smallest_share, "0.02 is 2% of the data; 0 leaves no group out.")
