"""Sentences on an audit: rows and reliability, error rates, omitted factors and separate models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tiltlens._analysis.adjusted_gap import Sensitivity
from tiltlens._analysis.error_rates import ErrorRates, SelectiveLabels
from tiltlens._analysis.output_tables import DecisionTable
from tiltlens._analysis.splitting import Splitting
from tiltlens._documents import document as doc
from tiltlens._documents.headline import (
    MOST_NAMED,
    four_fifths_words,
    headline,
    is_of_decisions,
    unfavourable_words,
    unobserved_group_sentences,
)
from tiltlens._documents.quantities import estimate_cell, estimate_words, fill, format_of, quantity, written
from tiltlens._estimators.estimate import Materiality, materiality
from tiltlens._estimators.verdicts import Verdict, is_beyond
from tiltlens._formats import (
    NOTHING,
    brief_percent,
    capitalised,
    count,
    label,
    number,
    p_value,
    percent,
    ratio,
    value_of,
    whole,
)
from tiltlens._results.audit import Audit
from tiltlens._results.change import Change
from tiltlens._results.comparison import ERROR_RATE_KEYS, Comparison
from tiltlens._results.outputs import Checks
from tiltlens._rows.wording import METRICS, POINTS, exclusion_words

OF_SCORES = {"fpr": "mean score", "fnr": "1 minus the mean score"}
OF_DECISIONS = {
    "fpr": "share given decision 1",
    "fnr": "share given decision 0",
    "fdr": "share without the outcome",
    "for": "share with the outcome",
}
OF_RATES = "Differences of percentages are in points."
RATES_DO_NOT_SHOW = (
    "Error rates differ if the outcome is more frequent in one group, even for scores that are calibrated in "
    "both. Outcomes observed only for people with the favourable decision say nothing about the others."
)


def error_rate_blocks(c: Comparison, rates: ErrorRates) -> list[doc.Block]:
    """Return the table of both groups' error rates and gaps, and notes on how to read it."""
    m = doc.measure_of(c)
    rows, notes = [], [f"{_people(c, rates)}.", OF_RATES]
    # Decisions have no calibration or AUC, and scores no predictive values.
    keys = ERROR_RATE_KEYS if m.each != "decision" else OF_DECISIONS
    for key in keys:
        item, rate = quantity(key), rates.rate(key)
        name, head = capitalised(item.label), item.name(m)
        if rate is not None:
            written = format_of(item.scale, m)
            cells = [estimate_cell(side, written.value) for side in (rate.audited, rate.reference)]
            rows.append((head, *cells, estimate_cell(rate.difference, written.change)))
            notes.append(f"{name}: {_in_words(definition(key, m.each), c)}.")
        elif key in rates.reasons:
            rows.append((head, *[NOTHING] * 3))
            notes.append(f"{name} is not measured: {rates.reasons[key]}.")
    table = doc.Table.of("error-rates", ("quantity", *doc.BOTH, "audited minus reference"), rows, doc.level_of(c))
    bounds = [doc.Paragraph(line) for line in selective_words(rates.selective_labels)]
    return [table, doc.Paragraph(" ".join(notes), doc.QUIET), *bounds, doc.Paragraph(RATES_DO_NOT_SHOW, doc.QUIET)]


def selective_words(labels: SelectiveLabels | None) -> Iterator[str]:
    """Yield how far unobserved outcomes may differ from observed ones before the sign of a gap is undetermined."""
    for key, gamma in labels.sign_gamma.items() if labels is not None else ():
        gap, name = quantity(f"{key}_difference").label, quantity("sign_gamma")
        if gamma.value == 0.0:
            yield f"The sign of the {gap} is inconclusive, because some outcomes were not observed."
            continue
        if gamma.value == 1.0:
            yield f"The {gap} has the same sign whatever the outcomes that were not observed."
            continue
        write = format_of(name.scale, POINTS).value
        interval = f" (with its interval: {write(gamma.low)})" if gamma.low is not None else ""
        yield (
            f"The {gap} has the same sign as long as, at equal score, unobserved outcomes differ in frequency from "
            f"observed ones by at most {write(gamma.value)} points{interval}."
        )


def definition(key: str, each: str) -> str:
    """Return the definition of an error rate, for decisions or for scores."""
    if key not in METRICS:
        return quantity(key).definition.replace("{each}", each)
    return f"{(OF_DECISIONS if each == 'decision' else OF_SCORES)[key]} among {METRICS[key].people}"


def _in_words(text: str, c: Comparison) -> str:
    """Return a definition in the user's words: "share invited among applicants without the outcome"."""
    m = doc.measure_of(c)
    text = text.replace("people", m.people)
    decided = [f"given the {which} decision" for which in ("favourable", "unfavourable")]
    if m.favoured:
        decided = [m.favoured, f"not {m.favoured}"]
    if not doc.is_favourable_mean(c):
        decided.reverse()
    return text.replace("given decision 1", decided[0]).replace("given decision 0", decided[1])


def _people(c: Comparison, rates: ErrorRates) -> str:
    m, parts = doc.measure_of(c), []
    for group in doc.BOTH:
        people = rates.people[group]
        without, with_it = (_counted(people[which]) for which in ("without", "with"))
        parts.append(f"{group} group: {without} {m.people} without the outcome and {with_it} with it")
        parts[-1] += f" ({count(people['unknown'])} unknown)" if people["unknown"] else ""
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}" + (" (expected by group probability)" if c.unobserved_group else "")


def _counted(people: int | None) -> str:
    return "a suppressed number" if people is None else count(people)


def metric_words(audit: Audit) -> str:
    """Return a sentence on the audited error rate."""
    key, m = doc.metric_of(audit) or "", doc.measure_of(audit)
    outcome = label(audit.provenance.question["outcome"])
    compared = f"{METRICS[key].name}: {definition(key, m.each)} (outcome: {outcome})"
    return f"The audit compares the {compared}. {RATES_DO_NOT_SHOW}"


FEW = 3  # if more features share a note, it is given once below the table
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
    """Return sentences on the limits of an audit."""
    m, (first, proxy, *others) = doc.measure_of(audit), DOES_NOT_SHOW
    given = verdicts_given(audit)
    proxies = [proxy] if {Verdict.POTENTIAL_PROXY, Verdict.IN_COMBINATION} & set(given) else []
    proxies += [PROXY_OR_STAND_IN] if Verdict.PROXY_OR_STAND_IN in given else []
    return tuple(line.replace("scores", f"{m.each}s") for line in (first, *proxies, *others))


def common_notes(c: Comparison) -> dict[str, int]:
    """Return the notes that more than three features share, with their counts, to be given once below the table."""
    given = Counter(row.notes for row in c.by_feature if row.notes)
    return {note: times for note, times in given.items() if times > FEW}


def audited_words(audit: Audit) -> list[str]:
    """Return sentences on what was audited, and under which conditions."""
    names = ", ".join(label(name) for name in list(audit.comparisons)[:MOST_NAMED])
    more = len(audit.comparisons) - MOST_NAMED
    features = len(audit[0].by_feature)
    question = audit.provenance.question
    lines = [
        f"{doc.measure_of(audit).each.capitalize()}s by {label(audit.group)}: "
        f"{names}{f' and {more} more' if more > 0 else ''} vs {label(audit.reference)}, with {features or 'no'} "
        f"feature{'s' if features != 1 else ''}. {rows_words(audit)} The favourable outcome is "
        f"{favourable_words(audit)}."
    ]
    if doc.metric_of(audit) is not None:
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
    """Return a sentence on the number of rows used, and on the reasons for exclusions."""
    read, used = audit.rows["read"], audit.rows["used"]
    left_out = {reason: size for reason, size in audit.rows.items() if reason not in ("read", "used")}
    if not any(size != 0 for size in left_out.values()):
        return f"All {read:,} rows were used."
    part = "" if read == used else f" of {read:,}"  # if the rows of small groups are not counted
    return f"{used:,}{part} rows were used. Excluded: {exclusion_words(left_out)}."


def favourable_words(audit: Audit) -> str:
    """Return the favourable outcome as a phrase."""
    outcome, m = label(audit.favourable), doc.measure_of(audit)
    if m.favoured:
        return f"“{m.favoured}”"
    if doc.measure_of(audit).is_amount:
        return f"a {outcome} amount"
    has_classes = isinstance(audit[0].outputs.means.audited, tuple)
    if has_classes or outcome not in ("0", "1"):
        return f"the outcome “{outcome}”"
    if audit.score_type != "probability":
        return f"the decision {outcome}"
    return f"a {'high' if outcome == '1' else 'low'} score"


def findings(audit: Audit, c: Comparison, is_only: bool) -> list[str]:
    """Return the findings on one audited group; if it is the only group, its headline is already shown above."""
    lines = [] if is_only else headline(audit, c)
    if is_of_decisions(audit) and c.adverse_impact_ratio is not None:
        lines.append(four_fifths_words(c.adverse_impact_ratio, doc.level_of(c), doc.measure_of(c).among))
    lines.append(unfavourable_words(c) if c.impact_ratio is not None else "")
    return [*filter(None, lines), *unobserved_group_sentences(c), *reliability_sentences(c)]


def verdicts_given(audit: Audit) -> dict[str, str]:
    """Return the verdicts that occur in an audit, with their meanings."""
    given = {row.verdict for _, c in audit.items() for row in c.by_feature}
    user = f"the {doc.measure_of(audit).each}"
    return {verdict: of.meaning.replace("the score", user) for verdict, of in doc.VERDICTS.items() if verdict in given}


def reliability_sentences(c: Comparison) -> list[str]:
    """Return sentences on the reliability of the findings on one audited group."""
    lines = []
    if c.gap.low is None:
        lines.append("These are plug-in values, as in the paper: they have no intervals and no verdicts.")
    elif c.gap_test:
        test = quantity("gap_test")
        name = capitalised(test.label)
        lines.append(f"{name}: {p_value(c.gap_test.p_value)} ({test.definition}).")
    if c.checks.is_adequate:
        lines.append("Overlap and calibration checks passed.")
    elif c.checks.is_adequate is False:
        lines.append(
            "Overlap and calibration checks failed, for the reasons in “For statisticians”: the adjusted gap and the "
            "correction may be wrong."
        )
    return lines


def checks_words(checks: Checks) -> str:
    """Return sentences on the group-membership model and the result of its checks."""
    model, balance = f"Model: “{label(checks.propensity)}”.", checks.balance
    if balance is None:
        return model
    result = "Checks passed." if balance.is_adequate else "Checks failed, for the reasons below."
    return (
        f"{model} {result} AUC {number(balance.auc, 2)}; {percent(balance.clipped)} of a group's rows are "
        f"clipped; calibration slope {number(balance.calibration.slope, 2)} (1 is ideal)."
    )


def simultaneous_words(result: Audit | Change) -> str:
    """Return a sentence on the intervals that cover all groups together; "" if there is only one group."""
    groups = len(result.comparisons)
    if groups == 1:
        return ""
    confidence = result.confidence if isinstance(result, Change) else result.settings.confidence
    level = f"{100 * confidence:g}%"
    return (
        f"The intervals of the gap and the adjusted gap cover all {groups} groups together ({level}); other intervals "
        "cover one group each."
    )


YARDSTICKS = ("r2_score", "r2_group", "multiple")
MOST_SHOWN = 5  # maximum number of features, the strongest first
LARGE = 100  # multiple beyond which only "more than" is reported
HOLDS = (
    "These numbers apply to an omitted factor of any form. They do not show that there is one, and they do not cover "
    "errors in the group labels or in the data."
)


def sensitivity_blocks(c: Comparison) -> list[doc.Block]:
    """Return the sensitivity of the adjusted gap, and of the gap given exempt factors, to an omitted factor."""
    blocks: list[doc.Block] = [doc.Heading("Sensitivity to an omitted factor")] if c.gap_parts.sensitivity else []
    for key, sensitivity in c.gap_parts.sensitivity.items():
        lines = [*sensitivity_words(c, key)]
        blocks.append(doc.Paragraph(" ".join(lines)))
        if len(lines) > 1:
            blocks += [_yardsticks(c, sensitivity), doc.Paragraph(HOLDS, doc.QUIET)]
    return blocks


def sensitivity_words(c: Comparison, key: str) -> Iterator[str]:
    """Yield sentences on the strength that an omitted factor needs; one sentence if the question does not arise."""
    sensitivity, m, name = c.gap_parts.sensitivity[key], doc.measure_of(c), quantity(key).label
    gap = sensitivity.gap
    if materiality(gap.low, gap.high, c.scale.materiality) is Materiality.NOT_MATERIAL:
        yield f"The {name} is within the materiality threshold, so an omitted factor has nothing to account for."
        return
    if not is_beyond(gap):
        yield f"The {name} is inconclusive: even without an omitted factor, its interval includes 0."
        return
    value = sensitivity.robustness_value
    yield (
        f"To account for the {name} of {estimate_words(gap, m)}, an omitted factor would have to explain "
        f"{percent(value.value)} of the remaining variance of both the {m.each}s and group membership. At "
        f"{percent(value.low)} or more, the interval of the {name} would include 0."
    )
    strongest = next(((row, row.multiple) for row in sensitivity.yardsticks if row.multiple is not None), None)
    if strongest is None:
        yield "No listed feature is related to both, so none serves as a yardstick."
        return
    row, multiple = strongest
    feature, times = label(row.feature), times_words(multiple)
    if multiple * row.r2_score > 1.0:
        yield (
            f"Even a factor that explains all the remaining variance of the {m.each}s would have to be {times} "
            f"as strongly related to the group as {feature}."
        )
    else:
        yield f"The omitted factor would have to be {times} as strong as {feature}, the strongest listed feature."


def times_words(multiple: float) -> str:
    """Return a multiple as text: "2.4 times", "more than 100 times"."""
    if multiple > LARGE:
        return f"more than {LARGE} times"
    return f"{multiple:.1f} times" if multiple < 10 else f"{multiple:.0f} times"


def _yardsticks(c: Comparison, sensitivity: Sensitivity) -> doc.Table:
    m = doc.measure_of(c)
    heads = ("feature, given the others", *(fill(quantity(key).label, m) for key in YARDSTICKS))
    rows = (
        (
            label(row.feature),
            *(doc.Cell(percent(share), value=share) for share in (row.r2_score, row.r2_group)),
            doc.Cell(NOTHING if row.multiple is None else times_words(row.multiple), value=row.multiple),
        )
        for row in sensitivity.yardsticks[:MOST_SHOWN]
    )
    return doc.Table.of("yardsticks", heads, rows)


GAIN_COLUMNS = {"both": "equal weights", "audited": "audited", "reference": "reference", "largest": "largest"}
GAIN_STATES = {
    Materiality.MATERIAL: "separate models would predict better",
    Materiality.DETECTED: "separate models would predict better, perhaps not materially",
    Materiality.NOT_MATERIAL: "no material gain from separate models",
    Materiality.INCONCLUSIVE: "inconclusive: separate models may or may not predict better",
}
GAIN_LIMITS = (
    "Gains are relative to the best model without the group. All models use the same features and are evaluated on "
    "rows on which they were not fitted. "
    "Richer models may gain more. Whether a model may use the group is a policy and legal question."
)


def splitting_blocks(c: Comparison) -> list[doc.Block]:
    """Return the gain from separate models; nothing if it was not computed."""
    gains = c.splitting
    if gains is None:
        return []
    weight = percent(gains.brier.weight)
    notes = f"Largest gain: if the audited group has {weight} of the weight (Brier score). {GAIN_LIMITS}"
    return [
        doc.Heading("One model or separate models"),
        doc.Paragraph(" ".join(splitting_words(c, gains))),
        _gains(gains, doc.level_of(c)),
        doc.Paragraph(notes, doc.QUIET),
    ]


def splitting_words(c: Comparison, gains: Splitting) -> Iterator[str]:
    """Yield sentences on the gain for both groups and each of them, and on differences of the outcome itself."""
    names, brier = ("Both groups", label(c.audited), label(c.reference)), gains.brier
    parts = zip(("both", *doc.BOTH), names, (brier.both, brier.audited, brier.reference), strict=True)
    for group, name, gain in parts:
        level, what = (doc.level_of(c) if group == "both" else "", "Brier score lower by ")
        size = written(gains.relative(gain), brief_percent, level)
        yield f"{capitalised(name)}: {GAIN_STATES[gains.status[group]]}, {what}{size}."
    threshold = percent(gains.materiality / gains.blind_brier)
    yield f"Materiality threshold: {threshold} of the Brier score of one model."
    if gains.least_gain.low is not None and gains.least_gain.low > 0.0:
        gap = estimate_words(gains.outcome_gap, POINTS)
        yield f"Among people with the same values of all features, the outcome itself differs by {gap}."


def _gains(gains: Splitting, level: str) -> doc.Table:
    heads = (doc.Column(text, is_optional=key == "largest") for key, text in GAIN_COLUMNS.items())
    rows = []
    for key, loss in (("brier", gains.brier), ("error_rate", gains.error_rate), ("log_loss", gains.log_loss)):
        item = quantity(key)
        write = format_of(item.scale, POINTS).change
        rows.append((item.name(POINTS), *(estimate_cell(loss.of(name), write) for name in GAIN_COLUMNS)))
    return doc.Table.of("splitting", ("gain", *heads), rows, level)


def decision_table_words(table: DecisionTable, level: str, among: str) -> list[str]:
    """Return the tests of the 2×2 table of decisions, and how many changed decisions would reverse them."""
    note = [f"{capitalised(table.note)}."] if table.note else []
    if table.z is None or table.z_p_value is None:
        return note
    words = (
        f"Audited vs reference{among}: {ratio(table.z)} standard deviations (z test, "
        f"{p_value(table.z_p_value)}); Fisher's exact test, {p_value(table.fisher_p_value)}"
    )
    if table.odds_ratio is not None:
        words += f"; odds ratio {written(table.odds_ratio, ratio, level)}"
    flips = (
        f"Sensitivity: at least {whole(table.ratio_flips)} decisions would have to change for the ratio to cross 0.80, "
        f"and {whole(table.z_flips)} for the z test to cross {table.critical_z:.2f}."
    )
    return [f"{words}.", flips, *note]
