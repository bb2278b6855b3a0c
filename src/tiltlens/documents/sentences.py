"""An audit in sentences: what was audited, how reliable the findings are, and what they do not show."""

from __future__ import annotations

from collections import Counter

from tiltlens.documents.error_rates import metric_words
from tiltlens.documents.headline import MOST_NAMED, headline
from tiltlens.documents.measures import level_of, measure_of, metric_of
from tiltlens.documents.quantities import quantity
from tiltlens.documents.ratios import four_fifths_words, is_of_decisions, unfavourable_words
from tiltlens.documents.unobserved_groups import soft_words
from tiltlens.documents.verdict_texts import VERDICTS
from tiltlens.estimators.verdicts import Verdict
from tiltlens.formats import label, number, p_value, percent, value_of
from tiltlens.results.audit import Audit
from tiltlens.results.change import Change
from tiltlens.results.comparison import Comparison
from tiltlens.results.outputs import Checks
from tiltlens.rows.wording import exclusion_words

FEW = 3  # features whose notes stand beside each
IS_NO_FINDING = (
    "A potential proxy is a reason to look, not a finding of wrongdoing. The numbers are associations in these data; "
    "they do not establish causes."
)
DOES_NOT_SHOW = (
    "It shows associations in these data. It does not establish causes and is not a verdict on a model, a decision or "
    "a person.",
    "A potential proxy is a reason to look at a feature, because the groups differ on it and the scores use it. "
    "Whether the feature is legitimate is not a statistical question.",
    "An inconclusive result is not evidence of no gap.",
    "It relies on the group labels, scores and features that were supplied, including their errors.",
)
PROXY_OR_STAND_IN = (
    "A potential proxy or stand-in is a feature on which the groups differ. The data do not show whether the scores "
    "use it."
)


def does_not_show(audit: Audit) -> tuple[str, ...]:
    """Return what an audit does not show."""
    m, (first, proxy, *others) = measure_of(audit), DOES_NOT_SHOW
    given = verdicts_given(audit)
    proxies = [proxy] if {Verdict.POTENTIAL_PROXY, Verdict.IN_COMBINATION} & set(given) else []
    proxies += [PROXY_OR_STAND_IN] if Verdict.PROXY_OR_STAND_IN in given else []
    return tuple(line.replace("scores", f"{m.each}s") for line in (first, *proxies, *others))


def common_notes(c: Comparison) -> dict[str, int]:
    """Return the notes that many features share, with how many: said once, below their table."""
    given = Counter(row.notes for row in c.by_feature if row.notes)
    return {note: times for note, times in given.items() if times > FEW}


def audited_words(audit: Audit) -> list[str]:
    """Return what was audited, and on which condition."""
    names = ", ".join(label(name) for name in list(audit.comparisons)[:MOST_NAMED])
    more = len(audit.comparisons) - MOST_NAMED
    features = len(audit[0].by_feature)
    question = audit.provenance.question
    lines = [
        f"{measure_of(audit).each.capitalize()}s by {label(audit.group)}: "
        f"{names}{f' and {more} more' if more > 0 else ''} vs {label(audit.reference)}, with {features or 'no'} "
        f"feature{'s' if features != 1 else ''}. {rows_words(audit)} The favourable outcome is "
        f"{favourable_words(audit)}."
    ]
    if metric_of(audit) is not None:
        lines.append(metric_words(audit))
    if any(c.unobserved_group for _, c in audit.items()):
        lines.append("Groups are unobserved: each row counts in every group by its group probability.")
    if question["where"]:
        conditions = " and ".join(value_of(label(name), label(value)) for name, value in question["where"].items())
        lines.append(f"Only rows with {conditions} were audited; the results apply to them only.")
    if question["threshold"] is not None:
        lines.append(f"Scores of {question['threshold']:g} or more count as decision 1, lower ones as 0.")
    if question["sample_weight"]:
        lines.append(f"Rows are weighted by {label(question['sample_weight'])}.")
    return lines


def rows_words(audit: Audit) -> str:
    """Return how many rows were used, and why others were not."""
    read, used = audit.rows["read"], audit.rows["used"]
    left_out = {reason: size for reason, size in audit.rows.items() if reason not in ("read", "used")}
    if not any(size != 0 for size in left_out.values()):
        return f"All {read:,} rows were used."
    part = "" if read == used else f" of {read:,}"  # where the rows of small groups are not counted
    return f"{used:,}{part} rows were used. Excluded: {exclusion_words(left_out)}."


def favourable_words(audit: Audit) -> str:
    """Return the favourable outcome as a reader would say it."""
    outcome, m = label(audit.favourable), measure_of(audit)
    if m.favoured:
        return f"“{m.favoured}”"
    if measure_of(audit).is_amount:
        return f"a {outcome} amount"
    has_classes = isinstance(audit[0].outputs.means.audited, tuple)
    if has_classes or outcome not in ("0", "1"):
        return f"the outcome “{outcome}”"
    if audit.score_type != "probability":
        return f"the decision {outcome}"
    return f"a {'high' if outcome == '1' else 'low'} score"


def findings(audit: Audit, c: Comparison, is_only: bool) -> list[str]:
    """Return the findings about one audited group; the only group's headline stands above."""
    lines = [] if is_only else headline(audit, c)
    if is_of_decisions(audit) and c.adverse_impact_ratio is not None:
        lines.append(four_fifths_words(c.adverse_impact_ratio, level_of(c), measure_of(c).among))
    lines.append(unfavourable_words(c) if c.impact_ratio is not None else "")
    return [*filter(None, lines), *soft_words(c), *sure_words(c)]


def verdicts_given(audit: Audit) -> dict[str, str]:
    """Return the verdicts of the table that an audit has, and what they mean."""
    given = {row.verdict for _, c in audit.items() for row in c.by_feature}
    user = f"the {measure_of(audit).each}"
    return {text: kind.meaning.replace("the score", user) for text, kind in VERDICTS.items() if text in given}


def sure_words(c: Comparison) -> list[str]:
    """Return how reliable the findings about one audited group are."""
    lines = []
    if c.gap.low is None:
        lines.append("These are plug-in values, as in the paper: they have no intervals and no verdicts.")
    elif c.gap_test:
        test = quantity("gap_test")
        name = f"{test.label[:1].upper()}{test.label[1:]}"
        lines.append(f"{name}: {p_value(c.gap_test.p_value, c.gap_test.permutations)} ({test.definition}).")
    if c.checks.is_adequate:
        lines.append("Overlap and calibration checks passed.")
    elif c.checks.is_adequate is False:
        lines.append(
            "Overlap and calibration checks failed, for the reasons in “For statisticians”: the adjusted gap and the "
            "correction may be wrong."
        )
    return lines


def checks_words(checks: Checks) -> str:
    """Return the group-membership model, and the result of its checks."""
    model, balance = f"Model: “{label(checks.propensity)}”.", checks.balance
    if balance is None:
        return model
    result = "Checks passed." if balance.is_adequate else "Checks failed, for the reasons below."
    return (
        f"{model} {result} AUC {number(balance.auc, 2)}; {percent(balance.clipped)} of a group's rows are "
        f"clipped; calibration slope {number(balance.calibration.slope, 2)} (1 is ideal)."
    )


def simultaneous_words(result: Audit | Change) -> str:
    """Return which intervals cover all groups together; nothing where one group is compared."""
    groups = len(result.comparisons)
    if groups == 1:
        return ""
    confidence = result.confidence if isinstance(result, Change) else result.settings.confidence
    level = f"{100 * confidence:g}%"
    return (
        f"The intervals of the gap and the adjusted gap cover all {groups} groups together ({level}); other intervals "
        "cover one group each."
    )
