"""A summary in plain words: what was audited, what was found, how sure that is, and what it does not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from tiltlens.documents.error_rates import criterion_words
from tiltlens.documents.ratios import against_four_fifths, four_fifths_words, is_of_decisions, unfavourable_words
from tiltlens.documents.summary_access import means
from tiltlens.documents.unobserved_groups import (
    WEIGHTED,
    bracket_words,
    expected,
    soft_doubt,
    soft_estimates,
    soft_words,
)
from tiltlens.documents.verdict_texts import (
    EVIDENCE,
    EXEMPT,
    NOTHING,
    OPEN,
    PROXY,
    THE_GROUP,
    VERDICTS,
    Verdict,
    verdict_of,
)
from tiltlens.formats import (
    count,
    interval,
    interval_name,
    label,
    p_value,
    percent,
    ratio,
)
from tiltlens.rows.measures import UNITS, criterion_of, measure_of

MOST_NAMED = 6
HEADLINED = 3  # features that the first sentence names
SHORT = 40  # letters of a name in the first sentences
FEW = 3  # features whose notes stand beside each
NO_FEATURES = "No features were listed: what carries the difference is not looked at."
OVERLAP = "Features overlap: these do not add up."

DOES_NOT_SHOW = (
    "It shows associations under this one model and these data. It shows no cause, and is no verdict on a model, a "
    "decision or a person.",
    "A potential proxy is a reason to look at a feature: it differs between the groups, moves the score, and the two "
    "go together. Whether the feature is legitimate is not a statistical question.",
    "That the data cannot tell is an answer of its own. It never means that there is no difference.",
    "It rests on the group labels, scores and features that were supplied. Errors in them are errors here.",
)


def does_not_show(summary: dict[str, Any]) -> tuple[str, ...]:
    """Return what an audit does not show."""
    m = measure_of(summary)
    return tuple(line.replace("the score", f"the {m.output}").replace("scores", f"{m.each}s") for line in DOES_NOT_SHOW)


def headline(summary: dict[str, Any], c: dict[str, Any]) -> list[str]:
    """Return the answer in a sentence or two: both groups' numbers, and the features that carry most.

    Of groups that are known by probabilities, where the difference lies comes first: one estimate would mislead.
    """
    if c["soft_group"] is None:
        return [_numbers(summary, c), *_carriers(c)]
    who, other = label(c["audited"], SHORT), label(c["reference"], SHORT)
    linear, told = soft_estimates(c)["linear"], measure_of(c).difference
    other_way = f" The linear estimate is {told(linear['value'])} {measure_of(c).unit}." if linear else ""
    return [f"{who} against {other}: {_uncapital(bracket_words(c))}", _numbers(summary, c) + other_way, *_carriers(c)]


def _uncapital(text: str) -> str:
    return f"{text[:1].lower()}{text[1:]}"


def _numbers(summary: dict[str, Any], c: dict[str, Any]) -> str:
    (audited, reference), m = means(c), measure_of(summary)
    who, other, gap = label(c["audited"], SHORT), label(c["reference"], SHORT), c["gap"]
    low = "low" if m is UNITS else "0"
    is_low = label(summary["favourable"]) == low and isinstance(c["output"]["audited"], int | float)
    if c["criterion"] is not None:
        start = f"The {m.mean} of {who} is {m.level(audited)}, that of {other} {m.level(reference)}"
    elif is_of_decisions(summary):
        what = "Decision 1" if is_low or label(summary["favourable"]) == "1" else f"“{label(summary['favourable'])}”"
        start = f"{what} is given to {percent(audited)} of {who} and to {percent(reference)} of {other}"
    else:
        start = f"The {m.mean} of {who} is {m.level(audited)}, that of {other} {m.level(reference)}"
    start = start if c["soft_group"] is None else f"{WEIGHTED.capitalize()}, {_uncapital(start)}"
    if gap["low"] is not None and gap["low"] <= 0 <= gap["high"]:
        return f"{start}: these data cannot tell whether the two differ."
    is_often = is_of_decisions(summary) and c["criterion"] is None
    more, less = ("more often", "less often") if is_often else ("higher", "lower")
    wanted = f", where {m.a_low} is what a person wants" if is_low and c["criterion"] is None else ""
    difference = m.size(gap["value"]) if m is UNITS else f"{m.size(gap['value'])} {m.long_unit}"
    return f"{start}: {difference} {more if gap['value'] > 0 else less}{wanted}."


def _carriers(c: dict[str, Any]) -> Iterator[str]:
    rows = c["proxies"]
    if not rows:
        yield NO_FEATURES
        return
    for row in rows:
        if verdict_of(row).kind == THE_GROUP:
            yield f"Among the features is the group itself: {label(row['feature'], SHORT)}."
            break
    yield from _exempt(c)
    found = [row for row in rows if verdict_of(row).kind == EVIDENCE and row["gap"] is not None]
    unit = measure_of(c).unit
    gap, it = (c["at_equal_exempt"], "the rest") if c["at_equal_exempt"] else (c["gap"], "it")
    if found and gap["low"] is not None and gap["low"] <= 0 <= gap["high"]:
        yield f"What pulls the two apart, one way or the other, in {unit}: {_pointed(c, found)}."
        return
    is_up = gap["value"] > 0
    with_it = [row for row in found if (_strongest(row) > 0) == is_up]
    against = [row for row in found if (_strongest(row) > 0) != is_up]
    if with_it:
        yield f"What carries {it}, strongest first, in {unit}: {_pointed(c, with_it)}. {OVERLAP}"
    if against:
        yield f"What works against {it}, in {unit}: {_pointed(c, against)}."
    if not found and any(verdict_of(row).kind != EXEMPT for row in rows):
        is_open = any(verdict_of(row).kind == OPEN for row in rows)
        yield f"The data do not settle which features carry {it}." if is_open else "No feature carries a material part."


def _exempt(c: dict[str, Any], settings: dict[str, Any] | None = None) -> Iterator[str]:
    """Yield the gap in two parts where lawful factors were named, with their intervals where settings are given."""
    if c["through_exempt"] is None:
        return
    m = measure_of(c)
    through, left = (
        f"{m.difference(one['value'])} {m.unit}"
        f"{f' ({_ends(c, one, settings)})' if settings and one['low'] is not None else ''}"
        for one in (c["through_exempt"], c["at_equal_exempt"])
    )
    names = ", ".join(label(name, SHORT) for name in c["exempt"][:MOST_NAMED])
    more = f" and {len(c['exempt']) - MOST_NAMED} more" if len(c["exempt"]) > MOST_NAMED else ""
    yield f"Of the difference, {through} go through the exempt factors ({names}{more}); {left} are left at equal ones."


def _strongest(row: dict[str, Any]) -> float:
    """Return the points that a verdict speaks of: by itself or, where that is what was found, with the others."""
    return float(row["gap"] if row["verdict"] == PROXY or row["joint"] is None else row["joint"])


def _pointed(c: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    shown = measure_of(c).difference
    parts = [f"{label(row['feature'], SHORT)} ({shown(_strongest(row))})" for row in rows[:HEADLINED]]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


class Tile(NamedTuple):
    """A number of the first screen: what it is, how large, and what to know of it."""

    name: str
    value: str
    note: str


def tiles(summary: dict[str, Any], c: dict[str, Any]) -> list[Tile]:
    """Return the numbers of the first screen: both rates, their ratio, people affected."""
    who, other, rates = label(c["audited"], SHORT), label(c["reference"], SHORT), c["favourable_rates"]
    m = measure_of(summary)
    if c["soft_group"] is not None:
        return list(_estimates_by_chances(c))
    both = f"{m.level(rates['audited']['value'])} · {m.level(rates['reference']['value'])}"
    name = m.rate if is_of_decisions(summary) else m.predicted
    found = [Tile(name, both, f"{who} · {other}; favourable: {favourable_words(summary)}")]
    if c["criterion_rates"] is not None:
        both = " · ".join(m.level(c["criterion_rates"][group]["value"]) for group in ("audited", "reference"))
        found = [Tile(m.mean, both, f"{who} · {other}{m.among}")]
    adverse = c["adverse_impact_ratio"]
    if is_of_decisions(summary) and adverse is not None:
        found.append(
            Tile("lower ÷ higher rate", ratio(adverse["value"]), _noted(adverse, against_four_fifths(adverse)))
        )
    elif not is_of_decisions(summary) and c["impact_ratio"] is not None:
        note = _noted(c["impact_ratio"], f"of the {m.predicted}s, {who} ÷ {other}")
        found.append(Tile(m.ratio, ratio(c["impact_ratio"]["value"]), note))
    if len(found) > 1 and (words := unfavourable_words(c)):
        found[-1] = found[-1]._replace(note=f"{found[-1].note}; {words}")
    return [*found, _affected(c)]


def _estimates_by_chances(c: dict[str, Any]) -> Iterator[Tile]:
    """Yield both estimates and the limits, none of them alone."""
    found, m = c["soft_group"], measure_of(c)
    notes = {"weighted": "each row in both groups by its chances", "linear": f"slope of the {m.each} on the chance"}
    for name, note in notes.items():
        if found[name] is not None:
            ends = (
                ""
                if found[name]["low"] is None
                else f"; {interval(found[name]['low'], found[name]['high'], m.difference)}"
            )
            yield Tile(f"{name} estimate, {m.unit}", m.difference(found[name]["value"]), note + ends)
    if found["limits"] is not None:
        ends = interval(found["limits"]["low"], found["limits"]["high"], m.difference)
        yield Tile(f"limits, {m.unit}", ends, "what probabilities that are right on average allow")


def _noted(found: dict[str, Any], words: str) -> str:
    return words if found["low"] is None else f"{words}; {interval(found['low'], found['high'], ratio)}"


def _affected(c: dict[str, Any]) -> Tile:
    found, who, other = c["shortfall"], label(c["audited"], SHORT), label(c["reference"], SHORT)
    is_more, m = found["value"] < 0, measure_of(c)
    fewer = "fewer" if is_more else "more"
    what = f"{fewer} of {who} would have the favourable outcome at the rate of {other}{m.among}"
    name = m.affected
    if m is UNITS:
        name = "better off in total" if is_more else name
        what = f"all of {who} together, against the mean of {other}"
    ends = (found["low"], found["high"])
    if ends[0] is not None and ends[1] is not None:
        low, high = sorted((-ends[0], -ends[1])) if is_more else ends
        what += f"; {interval(low, high, m.total)}"
        what += ", which may be none" if low <= 0 <= high else ""
    return Tile(name, m.total(abs(found["value"])), what)


class Doubt(NamedTuple):
    """What to know before the numbers are trusted."""

    text: str
    is_warning: bool
    is_of_group: bool = True  # or of the whole audit


def trust(summary: dict[str, Any], c: dict[str, Any]) -> list[Doubt]:
    """Return how far to trust a comparison, a short line each."""
    rows, found = c["proxies"], c["balance"]
    lines = [Doubt(f"{count(c['rows']['audited'])} and {count(c['rows']['reference'])} people{expected(c)}", False)]
    lines += [Doubt(soft_doubt(c), c["soft_group"]["status"] != "checked")] if c["soft_group"] else []
    if c["gap"]["low"] is None:
        lines.append(Doubt("plug-in values: no intervals, no verdicts", True))
    elif c["equal_outputs"]:
        p = c["equal_outputs"]["p_value"]
        is_chance = p >= 1 - summary["settings"]["confidence"] ** (1 / len(summary["comparisons"]))
        lines.append(Doubt(f"{'may be chance' if is_chance else 'more than chance'} ({p_value(p)})", is_chance))
    if found is not None:
        text = "comparability check passed" if found["is_adequate"] else "comparability check failed"
        lines.append(Doubt(text, not found["is_adequate"]))
    unsettled = sum(verdict_of(row).kind == OPEN for row in rows)
    lines += [Doubt(f"{unsettled} of {len(rows)} features not settled", True)] if unsettled else []
    noted = sum(bool(row["notes"]) for row in rows)
    lines += [Doubt(f"notes on {noted} of {len(rows)} features", False)] if noted else []
    lines += (
        [Doubt(f"{len(c['notes'])} note{'s' if len(c['notes']) > 1 else ''} to read, below", True)]
        if c["notes"]
        else []
    )
    if not summary["provenance"]["stated"]:
        lines.append(Doubt("nothing stated of data and model", True, False))
    return lines


def strongest_words(c: dict[str, Any]) -> str:
    """Return the strongest feature of a comparison with its verdict, for the table of groups."""
    if not c["proxies"]:
        return "–"
    row = c["proxies"][0]
    return f"{label(row['feature'], SHORT)}: {measure_of(c).difference(row['gap'])}, {row['verdict']}"


def common_notes(c: dict[str, Any]) -> dict[str, int]:
    """Return the notes that many features share, with how many: said once, below their table."""
    given = Counter(row["notes"] for row in c["proxies"] if row["notes"])
    return {note: times for note, times in given.items() if times > FEW}


def audited_words(summary: dict[str, Any]) -> list[str]:
    """Return what was audited, and on which condition."""
    names = ", ".join(label(name) for name in list(summary["comparisons"])[:MOST_NAMED])
    more = len(summary["comparisons"]) - MOST_NAMED
    features = len(next(iter(summary["comparisons"].values()))["proxies"])
    rows, asked = summary["rows"], summary["provenance"]["question"]
    lines = [
        f"The {summary['channel']} of a fixed model, by {label(summary['group'])}: "
        f"{names}{f' and {more} more' if more > 0 else ''} against {label(summary['reference'])}, "
        f"with {features or 'no'} feature{'s' if features != 1 else ''}. {rows['used']:,} of {rows['read']:,} rows "
        f"were used. What a person wants is {favourable_words(summary)}."
    ]
    if criterion_of(summary) is not None:
        lines.append(criterion_words(summary, is_of_decisions(summary)))
    if any(c["soft_group"] for c in summary["comparisons"].values()):
        lines.append("Groups are known by probabilities: each row counts in every group by its chance.")
    if asked["where"]:
        conditions = " and ".join(f"{label(name)} = {label(value)}" for name, value in asked["where"].items())
        lines.append(f"Only rows with {conditions} were looked at: what follows holds for them alone.")
    if asked["threshold"] is not None:
        lines.append(f"Scores of {asked['threshold']:g} or more count as decision 1, lower ones as 0.")
    if asked["sample_weight"]:
        lines.append(f"Rows count by their weight ({label(asked['sample_weight'])}).")
    return lines


def favourable_words(summary: dict[str, Any]) -> str:
    """Return the outcome a person wants, as a reader would say it."""
    outcome = label(summary["favourable"])
    if measure_of(summary) is UNITS:
        return f"a {outcome} amount"
    is_binary = isinstance(next(iter(summary["comparisons"].values()))["output"]["audited"], int | float)
    if is_binary and outcome in ("0", "1"):
        thing = "score" if summary["channel"] == "scores" else "decision"
        if thing == "decision":
            return f"the decision {outcome}"
        return f"a {'high' if outcome == '1' else 'low'} score (the outcome “{outcome}”)"
    return f"the outcome “{outcome}”"


def found_words(summary: dict[str, Any], c: dict[str, Any]) -> list[str]:
    """Return what was found about one audited group, a sentence each."""
    settings = summary["settings"]
    return [
        *(soft_words(c) or [_gap(c, settings)]),
        *_exempt(c, settings),
        *_rates(summary, c),
        *_features(c, settings),
        *_unexplained(c, settings),
    ]


def _gap(c: dict[str, Any], settings: dict[str, Any]) -> str:
    gap, who, reference, m = c["gap"], label(c["audited"]), label(c["reference"]), measure_of(c)
    if gap["low"] is None:
        return f"{_difference(c)}. No interval was asked for."
    ends = _ends(c, gap, settings)
    if gap["low"] <= 0 <= gap["high"]:
        return (
            f"These data cannot tell whether the {m.mean}s of {who} and {reference} differ: the difference is "
            f"{m.difference(gap['value'])} {m.unit} ({ends})."
        )
    return f"{_difference(c)} ({ends})."


def _difference(c: dict[str, Any]) -> str:
    value, who, reference, m = c["gap"]["value"], label(c["audited"]), label(c["reference"]), measure_of(c)
    if value == 0:
        return f"The {m.mean}s of {who} and {reference} are equal in these data"
    side = "higher" if value > 0 else "lower"
    return f"The {m.mean} of {who} is {m.size(value)} {m.unit} {side} than that of {reference}"


def _ends(c: dict[str, Any], estimate: dict[str, Any], settings: dict[str, Any]) -> str:
    shown = measure_of(c).difference
    return f"{interval_name(settings['confidence'])} {interval(estimate['low'], estimate['high'], shown)}"


def _rates(summary: dict[str, Any], c: dict[str, Any]) -> Iterator[str]:
    found, rates, m = c["impact_ratio"], c["favourable_rates"], measure_of(summary)
    if found is None:
        return
    ends = "" if found["low"] is None else f" (interval {interval(found['low'], found['high'], percent)})"
    if m is UNITS:
        yield (
            f"The mean amount of {label(c['audited'])} is {percent(found['value'])} of that of "
            f"{label(c['reference'])}{ends}."
        )
        return
    verb = "is" if is_of_decisions(summary) else "is predicted to be"
    yield (
        f"The favourable outcome {verb} {percent(found['value'])} as frequent among {label(c['audited'])} as among "
        f"{label(c['reference'])}{ends}: {percent(rates['audited']['value'])} against "
        f"{percent(rates['reference']['value'])}{m.among}."
    )
    if is_of_decisions(summary) and c["adverse_impact_ratio"] is not None:
        yield four_fifths_words(c["adverse_impact_ratio"], summary["settings"]["confidence"], m.among)


def _features(c: dict[str, Any], settings: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each verdict that was given, in the order of the table; others come last."""
    given: dict[str, list[dict[str, Any]]] = {verdict: [] for verdict in VERDICTS}
    for row in c["proxies"]:
        given.setdefault(row["verdict"], []).append(row)
    kinds = {verdict_of(row).kind for row in c["proxies"]}
    for verdict, rows in given.items():
        if rows:
            opening = verdict_of(rows[0]).opening.replace("{counts}", measure_of(c).counted(c, settings))
            yield f"{label(opening, 200)}: {_named(c, rows, has_points=verdict == PROXY)}."
        elif verdict == PROXY and NOTHING in kinds and OPEN not in kinds:
            yield "No feature carries a material part of the difference by itself."


def _named(c: dict[str, Any], rows: list[dict[str, Any]], has_points: bool) -> str:
    names, m = [label(row["feature"], SHORT) for row in rows[:MOST_NAMED]], measure_of(c)
    if has_points:
        names = [f"{name} ({m.difference(row['gap'])} {m.unit})" for name, row in zip(names, rows, strict=False)]
    rest = f" and {len(rows) - MOST_NAMED} more" if len(rows) > MOST_NAMED else ""
    return ", ".join(names) + rest


def verdicts_given(summary: dict[str, Any]) -> dict[str, Verdict]:
    """Return the verdicts of the table that the summary has."""
    given = {row["verdict"] for c in summary["comparisons"].values() for row in c["proxies"]}
    return {text: verdict for text, verdict in VERDICTS.items() if text in given}


def _unexplained(c: dict[str, Any], settings: dict[str, Any]) -> Iterator[str]:
    left, limit, m = c["unexplained"], c["materiality"], measure_of(c)
    if left is None or left["low"] is None:
        return
    if left["low"] == left["high"] == 0:
        yield "Adjusted gap: 0, because the model sees nothing but the listed features."
        return
    start = f"Adjusted gap: {m.difference(left['value'])} {m.unit} ({_ends(c, left, settings)})"
    threshold = f"the materiality threshold of {m.size(limit)} {m.unit}"
    is_small = -limit <= left["low"] and left["high"] <= limit
    if is_small and c.get("soft_group"):
        yield f"{start} of the weighted gap, which shows part of it only."
    elif is_small:
        yield f"{start}. It is below {threshold}."
    elif c["balance"] is not None and not c["balance"]["is_adequate"]:
        yield f"{start}. The overlap and calibration checks failed, so this number may be wrong."
    elif left["low"] > limit or left["high"] < -limit:
        yield f"{start}. The listed features do not account for it; an omitted factor or use of the group may."
    elif left["low"] > 0 or left["high"] < 0:
        yield f"{start}. It is not zero, but may be below {threshold}."
    else:
        yield f"{start}. It may be 0 or exceed {threshold}: these data do not decide it."


def sure_words(c: dict[str, Any]) -> list[str]:
    """Return how sure the findings about one audited group are."""
    lines = []
    if c["gap"]["low"] is None:
        lines.append("These are plug-in values, as in the paper: they have no intervals and no verdicts.")
    elif c["equal_outputs"]:
        tested = p_value(c["equal_outputs"]["p_value"])
        lines.append(f"Test of equal outputs: {tested} (how often chance alone would make a difference as large).")
    found = c["balance"]
    if found is not None and found["is_adequate"]:
        lines.append("The comparability check found nothing amiss.")
    elif found is not None:
        lines.append(
            "The comparability check failed, for the reasons in “For statisticians”: what is said of people alike in "
            "all listed features, and all that is said there, is in doubt."
        )
    return lines
