"""An audit's findings in sentences: the gap, what accounts for it, how reliable that is, and what it does not show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from tiltlens.documents.error_rates import metric_words
from tiltlens.documents.quantities import estimate_words, fill, quantity
from tiltlens.documents.ratios import against_four_fifths, four_fifths_words, is_of_decisions, unfavourable_words
from tiltlens.documents.summary_access import means
from tiltlens.documents.unobserved_groups import WEIGHTED, bracket_words, expected, soft_estimates, soft_words
from tiltlens.documents.verdict_texts import EVIDENCE, EXEMPT, OPEN, PROXY, THE_GROUP, VERDICTS, Verdict, verdict_of
from tiltlens.estimators.verdicts import Materiality, is_significant, materiality
from tiltlens.formats import count, interval, interval_name, label, number, p_value, percent, ratio
from tiltlens.rows.measures import UNITS, measure_of, metric_of

Record = dict[str, Any]
MOST_NAMED = 6
HEADLINED = 3  # features in the first sentences
SHORT = 40  # letters of a name in the first sentences
FEW = 3  # features whose notes stand beside each
NO_FEATURES = "No features were listed, so contributions were not estimated."
OVERLAP = "They overlap and do not sum to the gap."
IS_NO_FINDING = (
    "A potential proxy is a reason to look, not a finding of wrongdoing. The numbers are associations under this model "
    "and these data; they show no cause."
)
DOES_NOT_SHOW = (
    "It shows associations under this model and these data. It shows no cause and is not a verdict on a model, a "
    "decision or a person.",
    "A potential proxy is a reason to look at a feature: the groups differ on it, and the score uses it. Whether the "
    "feature is legitimate is not a statistical question.",
    "An inconclusive result is not evidence of no gap.",
    "It relies on the group labels, scores and features that were supplied. Errors in them are errors here.",
)


def does_not_show(summary: Record) -> tuple[str, ...]:
    """Return what an audit does not show."""
    m = measure_of(summary)
    return tuple(line.replace("the score", f"the {m.output}").replace("scores", f"{m.each}s") for line in DOES_NOT_SHOW)


def level_name(summary: Record) -> str:
    """Return the name of the intervals of an audit, or of a comparison alone."""
    return interval_name((summary.get("settings") or {}).get("confidence"))


def headline(summary: Record, c: Record) -> list[str]:
    """Return the answer in a few sentences: the gap, the adjusted gap and the largest contributions.

    For unobserved groups the range of the gap comes first, because one estimate would mislead.
    """
    if c["unobserved_group"] is None:
        return [gap_sentence(summary, c), *adjusted_gap(summary, c), *_largest(summary, c)]
    who, other = label(c["audited"], SHORT), label(c["reference"], SHORT)
    text = bracket_words(c)
    return [f"{who} vs {other}: {text[:1].lower()}{text[1:]}", gap_sentence(summary, c), *_largest(summary, c)]


def gap_sentence(summary: Record, c: Record) -> str:
    """Return both groups' means and the gap, with whom it disadvantages and whether it is material."""
    m, gap = measure_of(c), c["gap"]
    start, estimate = _means(summary, c), estimate_words(gap, m, level_name(summary))
    if c["unobserved_group"]:
        linear = soft_estimates(c)["linear"]
        other = f", linear estimate {estimate_words(linear, m)}" if linear else ""
        return f"{WEIGHTED.capitalize()}: {start[:1].lower()}{start[1:]} Weighted gap {estimate}{other}."
    whom, threshold = _disadvantage(c), f"the materiality threshold of {m.size(c['scale']['materiality'])} {m.unit}"
    texts = {
        None: f"Gap {estimate}{whom}.",
        Materiality.MATERIAL: f"Gap {estimate}{whom}.",
        Materiality.DETECTED: f"Gap {estimate}{whom}; it may be below {threshold}.",
        Materiality.NOT_MATERIAL: f"No material gap: {estimate}, below {threshold}.",
        Materiality.INCONCLUSIVE: f"Gap {estimate}: inconclusive, consistent with 0 and with more than {threshold}.",
    }
    return f"{start} {texts[materiality(gap['low'], gap['high'], c['scale']['materiality'])]}"


def _means(summary: Record, c: Record) -> str:
    (audited, reference), m = means(c), measure_of(c)
    is_one = isinstance(c["outputs"]["means"]["audited"], int | float)
    name = m.mean if is_one else f"{m.rate} of “{label(summary['favourable'])}”" if "favourable" in summary else m.rate
    who, other = label(c["audited"], SHORT), label(c["reference"], SHORT)
    return f"{name[:1].upper()}{name[1:]}: {who} {m.level(audited)}, {other} {m.level(reference)}."


def _disadvantage(c: Record) -> str:
    lacks = c["shortfall"]["value"] if c["shortfall"] else 0.0
    return f", to the disadvantage of {label(c['audited' if lacks > 0 else 'reference'], SHORT)}" if lacks else ""


def adjusted_gap(summary: Record, c: Record) -> Iterator[str]:
    """Yield the adjusted gap and what its interval says."""
    left, m = c["adjusted_gap"], measure_of(c)
    if left is None or left["low"] is None:
        return
    if left["low"] == left["high"] == 0:
        yield "Adjusted gap: 0, because the model sees nothing but the listed features."
        return
    start = f"Adjusted gap: {estimate_words(left, m, level_name(summary))}"
    threshold = f"the materiality threshold of {m.size(c['scale']['materiality'])} {m.unit}"
    status = materiality(left["low"], left["high"], c["scale"]["materiality"])
    if status is Materiality.NOT_MATERIAL:
        yield (
            f"{start} of the weighted gap, which shows part of it only."
            if c.get("unobserved_group")
            else f"{start}. It is below {threshold}."
        )
    elif c["checks"]["balance"] is not None and not c["checks"]["balance"]["is_adequate"]:
        yield f"{start}. The overlap and calibration checks failed, so this number may be wrong."
    elif status is Materiality.MATERIAL:
        yield f"{start}. The listed features do not account for it; an omitted factor or use of the group may."
    elif status is Materiality.DETECTED:
        yield f"{start}. It is not zero, but may be below {threshold}."
    else:
        yield f"{start}. It may be 0 or exceed {threshold}: these data do not decide it."


def _largest(summary: Record, c: Record) -> Iterator[str]:
    """Yield the features with the largest contributions, those against the gap apart."""
    rows = c["contributions"]
    if not rows:
        yield NO_FEATURES
        return
    yield from (f"{label(row['feature'], SHORT)} identifies the group." for row in _of_kind(rows, THE_GROUP)[:1])
    yield from exempt_parts(summary, c)
    evidence = [row for row in _of_kind(rows, EVIDENCE) if row["alone"] is not None]
    gap = c["gap_parts"]["gap_given_exempt"] or c["gap"]
    if evidence and gap["low"] is not None and gap["low"] <= 0 <= gap["high"]:
        yield f"Features with material contributions in either direction: {_listed(c, evidence)}."
        return
    with_it = [row for row in evidence if (_judged_part(row)[0] > 0) == (gap["value"] > 0)]
    against = [row for row in evidence if row not in with_it]
    if with_it:
        yield f"Largest contributions: {_listed(c, with_it)}." + (f" {OVERLAP}" if len(with_it) > 1 else "")
    if against:
        yield f"Contributions in the opposite direction: {_listed(c, against)}."
    if c["gap"]["low"] is None:
        yield "Contributions are plug-in values without verdicts."
    elif not evidence and len(_of_kind(rows, EXEMPT)) < len(rows):
        is_open = bool(_of_kind(rows, OPEN))
        yield "The contributions of features are inconclusive." if is_open else "No feature contributes materially."


def _of_kind(rows: list[Record], kind: str) -> list[Record]:
    return [row for row in rows if verdict_of(row).kind == kind]


def exempt_parts(summary: Record, c: Record) -> Iterator[str]:
    """Yield the two parts of the gap where exempt factors were named."""
    if c["gap_parts"]["gap_explained_by_exempt"] is None:
        return
    through, left = (
        estimate_words(c["gap_parts"][key], measure_of(c), level_name(summary))
        for key in ("gap_explained_by_exempt", "gap_given_exempt")
    )
    exempt = c["gap_parts"]["exempt"]
    names = ", ".join(label(name, SHORT) for name in exempt[:MOST_NAMED])
    more = f" and {len(exempt) - MOST_NAMED} more" if len(exempt) > MOST_NAMED else ""
    yield f"Gap explained by exempt factors ({names}{more}): {through}. Gap given exempt factors: {left}."


def _judged_part(row: Record) -> tuple[float, str]:
    """Return the contribution that a verdict was read from, and which one it is."""
    is_alone = row["verdict"] == PROXY or row["beyond_others"] is None
    return (float(row["alone"]), "alone") if is_alone else (float(row["beyond_others"]), "beyond the others")


def _listed(c: Record, rows: list[Record]) -> str:
    m, parts = measure_of(c), []
    for row in rows[:HEADLINED]:
        value, which = _judged_part(row)
        parts.append(f"{label(row['feature'], SHORT)} {estimate_words({'value': value} | NO_ENDS, m)} {which}")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


NO_ENDS = {"low": None, "high": None}


class Tile(NamedTuple):
    """A number of the first screen: its name, its value and a note."""

    name: str
    value: str
    note: str


def tiles(summary: Record, c: Record) -> list[Tile]:
    """Return the numbers of the first screen: gap, adjusted gap and ratio; without features the shortfall as well."""
    who, other, m = label(c["audited"], SHORT), label(c["reference"], SHORT), measure_of(summary)
    if c["unobserved_group"] is not None:
        return list(_soft_tiles(c))
    level = interval_name(summary["settings"]["confidence"])
    numbers = [_gap_tile(c, key, level) for key in ("gap", "adjusted_gap") if c[key] is not None]
    key = "adverse_impact_ratio" if is_of_decisions(summary) else "impact_ratio"
    if (estimate := c[key]) is not None:
        words = against_four_fifths(estimate) if is_of_decisions(summary) else f"{m.predicted}s, {who} ÷ {other}"
        notes = [
            words,
            *([] if estimate["low"] is None else [interval(estimate["low"], estimate["high"], ratio)]),
            unfavourable_words(c),
        ]
        numbers.append(Tile(quantity(key).label, ratio(estimate["value"]), "; ".join(filter(None, notes))))
    return numbers if c["adjusted_gap"] is not None else [*numbers, _shortfall(c)]


def _gap_tile(c: Record, key: str, level: str) -> Tile:
    """Return a gap with its unit, interval and definition."""
    m, item, estimate = measure_of(c), quantity(key), c[key]
    ends = "" if estimate["low"] is None else f"{level} {interval(estimate['low'], estimate['high'], m.difference)}; "
    return Tile(item.name(m), m.difference(estimate["value"]), f"{ends}{fill(item.definition, m)}")


def _soft_tiles(c: Record) -> Iterator[Tile]:
    """Yield both estimates and the limits of the gap between unobserved groups."""
    m = measure_of(c)
    for key, name, note in (
        ("weighted", "weighted gap", "each row counts in both groups by its probabilities"),
        ("linear", quantity("linear").label, fill(quantity("linear").definition, m)),
    ):
        if (estimate := c["unobserved_group"][key]) is not None:
            ends = interval(estimate["low"], estimate["high"], m.difference)
            note += "" if estimate["low"] is None else f"; {ends}"
            yield Tile(f"{name} ({m.unit})", m.difference(estimate["value"]), note)
    if (limits := c["unobserved_group"]["limits"]) is not None:
        ends = interval(limits["low"], limits["high"], m.difference)
        yield Tile(quantity("limits").name(m), ends, quantity("limits").definition)


def _shortfall(c: Record) -> Tile:
    estimate, m = c["shortfall"], measure_of(c)
    ends = "" if estimate["low"] is None else f"; {interval(estimate['low'], estimate['high'], m.total)}"
    return Tile(quantity("shortfall").label, m.total(estimate["value"]), f"{m.affected_words}{ends}")


class Doubt(NamedTuple):
    """A line about the reliability of a comparison."""

    text: str
    is_warning: bool
    is_of_group: bool = True  # or of the whole audit


def trust(summary: Record, c: Record) -> list[Doubt]:
    """Return how reliable a comparison is, a short line each."""
    rows, checks = c["contributions"], c["checks"]["balance"]
    lines = [Doubt(f"{count(c['rows']['audited'])} and {count(c['rows']['reference'])} people{expected(c)}", False)]
    if c["unobserved_group"]:
        status = c["unobserved_group"]["status"]
        lines.append(Doubt(f"group probabilities: {status}", status != "checked"))
    if c["gap"]["low"] is None:
        lines.append(Doubt("plug-in values: no intervals, no verdicts", True))
    elif c["gap_test"]:
        p = c["gap_test"]["p_value"]
        is_sure = is_significant(p, summary["settings"]["confidence"], len(summary["comparisons"]))
        lines.append(Doubt(f"{'' if is_sure else 'not '}statistically significant ({p_value(p)})", not is_sure))
    if checks is not None:
        result = "passed" if checks["is_adequate"] else "failed"
        lines.append(Doubt(f"overlap and calibration checks {result}", not checks["is_adequate"]))
    is_open, noted = len(_of_kind(rows, OPEN)), sum(bool(row["notes"]) for row in rows)
    lines += [Doubt(f"{is_open} of {len(rows)} features without a clear verdict", True)] if is_open else []
    lines += [Doubt(f"notes on {noted} of {len(rows)} features", False)] if noted else []
    warnings = len(c["checks"]["notes"])
    lines += [Doubt(f"{warnings} warning{'s' if warnings > 1 else ''} below", True)] if warnings else []
    if not summary["provenance"]["stated"]:
        lines.append(Doubt("no provenance recorded", True, False))
    return lines


def common_notes(c: Record) -> dict[str, int]:
    """Return the notes that many features share, with how many: said once, below their table."""
    given = Counter(row["notes"] for row in c["contributions"] if row["notes"])
    return {note: times for note, times in given.items() if times > FEW}


def audited_words(summary: Record) -> list[str]:
    """Return what was audited, and on which condition."""
    names = ", ".join(label(name) for name in list(summary["comparisons"])[:MOST_NAMED])
    more = len(summary["comparisons"]) - MOST_NAMED
    features = len(next(iter(summary["comparisons"].values()))["contributions"])
    rows, question = summary["rows"], summary["provenance"]["question"]
    lines = [
        f"The {measure_of(summary).each}s of a fixed model, by {label(summary['group'])}: "
        f"{names}{f' and {more} more' if more > 0 else ''} vs {label(summary['reference'])}, "
        f"with {features or 'no'} feature{'s' if features != 1 else ''}. {rows['used']:,} of {rows['read']:,} rows "
        f"were used. The favourable outcome is {favourable_words(summary)}."
    ]
    if metric_of(summary) is not None:
        lines.append(metric_words(summary))
    if any(c["unobserved_group"] for c in summary["comparisons"].values()):
        lines.append("Groups are unobserved: each row counts in every group by its group probability.")
    if question["where"]:
        conditions = " and ".join(f"{label(name)} = {label(value)}" for name, value in question["where"].items())
        lines.append(f"Only rows with {conditions} were audited; the results hold for them alone.")
    if question["threshold"] is not None:
        lines.append(f"Scores of {question['threshold']:g} or more count as decision 1, lower ones as 0.")
    if question["sample_weight"]:
        lines.append(f"Rows are weighted by {label(question['sample_weight'])}.")
    return lines


def favourable_words(summary: Record) -> str:
    """Return the favourable outcome as a reader would say it."""
    outcome = label(summary["favourable"])
    if measure_of(summary) is UNITS:
        return f"a {outcome} amount"
    is_binary = isinstance(next(iter(summary["comparisons"].values()))["outputs"]["means"]["audited"], int | float)
    if not is_binary or outcome not in ("0", "1"):
        return f"the outcome “{outcome}”"
    if summary["score_type"] != "probability":
        return f"the decision {outcome}"
    return f"a {'high' if outcome == '1' else 'low'} score (the outcome “{outcome}”)"


def findings(summary: Record, c: Record, is_first: bool) -> list[str]:
    """Return the findings about one audited group; the first group's headline stands above."""
    lines = [] if is_first else headline(summary, c)
    if is_of_decisions(summary) and c["adverse_impact_ratio"] is not None:
        confidence = summary["settings"]["confidence"]
        lines.append(four_fifths_words(c["adverse_impact_ratio"], confidence, measure_of(c).among))
    return [*lines, *soft_words(c), *sure_words(c)]


def verdicts_given(summary: Record) -> dict[str, Verdict]:
    """Return the verdicts of the table that the summary has."""
    given = {row["verdict"] for c in summary["comparisons"].values() for row in c["contributions"]}
    return {text: verdict for text, verdict in VERDICTS.items() if text in given}


def sure_words(c: Record) -> list[str]:
    """Return how reliable the findings about one audited group are."""
    lines = []
    if c["gap"]["low"] is None:
        lines.append("These are plug-in values, as in the paper: they have no intervals and no verdicts.")
    elif c["gap_test"]:
        test = quantity("gap_test")
        name = f"{test.label[:1].upper()}{test.label[1:]}"
        lines.append(f"{name}: {p_value(c['gap_test']['p_value'])} ({test.definition}).")
    if c["checks"]["balance"] is not None and c["checks"]["balance"]["is_adequate"]:
        lines.append("Overlap and calibration checks passed.")
    elif c["checks"]["balance"] is not None:
        lines.append(
            "Overlap and calibration checks failed, for the reasons in “For statisticians”: the adjusted gap and the "
            "correction may be wrong."
        )
    return lines


def checks_words(checks: Record) -> str:
    """Return the group-membership model, and the result of its checks."""
    model, balance = f"Model: “{label(checks['propensity'])}”.", checks["balance"]
    if balance is None:
        return model
    result = "Checks passed." if balance["is_adequate"] else "Checks failed, for the reasons below."
    return (
        f"{model} {result} AUC {number(balance['auc'], 2)}; {percent(balance['clipped'])} of a group's rows are "
        f"clipped; calibration slope {number(balance['calibration']['slope'], 2)} (1 is ideal)."
    )


def simultaneous_words(summary: Record, confidence: float) -> str:
    """Return which intervals cover all groups together; nothing where one group is compared."""
    groups = len(summary["comparisons"])
    if groups == 1:
        return ""
    level = f"{100 * confidence:g}%"
    return (
        f"The intervals of the gap and the adjusted gap cover all {groups} groups together ({level}); other intervals "
        "cover one group each."
    )
