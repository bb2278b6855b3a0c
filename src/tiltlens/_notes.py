"""Notes on the data, the models and results: each sentence is defined once, by its code."""

from __future__ import annotations

from functools import partial
from typing import Any

OMITTED, USE_OF_GROUP = "an omitted factor", "use of the group"
ACTING_TOGETHER = "features that act together in a way that the regressions miss"
MAY_ACCOUNT_FOR = f"{OMITTED}, {USE_OF_GROUP}, or {ACTING_TOGETHER}"
EQUAL_DECISIONS = "people with equal features get equal decisions, so the gap can change only in steps"
OUT_OF_REACH = "closing it exactly would take more than twice the change, or is impossible"
THE_GAP, LARGEST_GAP = "the gap", "the largest of {gaps} gaps"
NOBODY, EVERYBODY = "nobody", "everybody"
ALMOST_NOBODY, ALMOST_EVERYBODY = "fewer than {few:.0%} of people", "more than {most:.0%} of people"
LEFT_OUT, KEEP_SCORES, KEEP_PRICES = "they are left out", "they keep their scores", "they keep their prices"
KEEP_DECISIONS = "their decisions follow their own scores"
_AUC = "after the adjustment the AUC is {auc:.3f} (95% CI {low:.3f} to {high:.3f})"
_USELESS = "A constant score also meets this limit, and predicts no worse"
_DATA = {
    "encoding": "file {file} was read as {encoding}{reason}",
    "saved index": "the column without a name ({column}) is a saved index and was left out",
    "numbers in text cells": "numbers in text cells were read as numbers: {columns}",
    "error cells": "column {column} has error cells, such as #N/A or #DIV/0!: they are missing values",
    "empty column": "column {column} has no value in any row. If it has formulas, open and save the file in Excel",
    "quoted numbers": "column {column} is read as text because its numbers are quoted",
    "day first": "column {column} was read as dates with the day first, then the month",
    "leading zeros": "column {column} is read as text because some of its numbers start with 0",
    "several forms": "column {column} is read as text because its {kind} are written in several forms; {remedy}",
    "odd values": (
        "column {column} is read as text because {count} of its {known:,} values are not {kind}, first {first}; "
        "{remedy}"
    ),
    "similar group names": ("the groups {groups} differ by spaces or letter case only: if they are one, use one name"),
    "clusters": "standard errors are clustered ({column}): {rows:,} rows in {clusters:,} clusters{mixed}",
    "repeated identifier": (
        "values of {column} repeat. If equal values are one person, pass it as `clusters` (--clusters); otherwise "
        "intervals are too narrow"
    ),
    "one-hot columns": (
        "exactly one of the columns {columns} is 1 in each row, so they look like parts of one feature, and each part "
        "is judged alone: audit them as one with `blocks` ({example})"
    ),
    "repeats the score": "{columns} alone gives the {output}: if it is a label, an old {old}, {remedy}",
    "row number": "{columns} rises or falls from row to row: if it is a row number, {remedy}",
    "named like an outcome": (
        "{columns} is named like a column of `where` or the `outcome`: if it is an outcome, {remedy}"
    ),
    "model without names": "the model has no column names; it was given {columns} in this order",
    "other answers": (
        "the model gave other answers for the same rows in another order, so its output is not made of the listed "
        "features alone: the adjusted gap is estimated as for given scores"
    ),
    "sampled": (
        "rates, gap, ratios and contributions alone of features with few values come from all {rows:,} rows; models, "
        "estimates based on them, and all standard errors come from a sample of {sample:,}"
    ),
    "repeated row": (
        "1 row is an exact duplicate and counts as a separate person. If it is not, pass clusters= (--clusters); "
        "otherwise intervals are too narrow"
    ),
    "repeated rows": (
        "{rows:,} rows are exact duplicates and count as separate people. If they are not, pass clusters= "
        "(--clusters); otherwise intervals are too narrow"
    ),
}
_FEATURES = {
    "missing values": "missing values are treated as a separate value",
    "one value": "it has only one value",
    "group copy": (
        "it is the group itself or a one-to-one recoding of it, so the group-membership model does not use it"
    ),
    "follows from the group": "it follows from the group: everyone in a group has the same value",
    "separates the groups": (
        "its values identify the two groups, so estimates that compare people of both groups leave it out"
    ),
    "identifier": "looks like an identifier: {why}; not used in the group-membership model",
    "sampled bins": "its bins come from a sample of {rows:,} rows",
    "sampled levels": "levels and their order by a sample of rows",
    "many values": "it has {values}; the {kept} most frequent are kept, and the rest are merged as {other!r}",
    "merged levels": "levels {levels} joined as {name}: fewer than {minimum} audited rows in a fold",
}
_MODELS = {
    "inadequate membership model": "the group-membership model failed its checks: {reason}",
    "unbalanced": (
        "the reweighted reference group misses the audited mean of {name} by {difference:+.2f} standard deviations"
    ),
    "candidates disagree": (
        "the candidates disagree: boosted trees fit clearly best in {trees} of {parts} parts of the data, other models "
        "in {others}"
    ),
    "little overlap": "the groups overlap too little: the log-ratio is clipped for {share:.0%} of a group's rows",
    "off support": (
        "{people} of the audited group have values that nobody in the reference group has ({features}), so the "
        "correction is extrapolated there"
    ),
}
_ESTIMATES = {
    "few people behind weights": "the effective sample size of {group} is {people:.1f}: intervals are unreliable",
    "constant amounts": "all amounts of {groups} are equal, so the intervals leave out the error of their means",
    "unknown outcomes": "{people} of the people have no outcome, so error rates leave them out",
    "outcome against the scores": (
        "in both groups, the outcome is less frequent among people with {high}, so error rates may count correct "
        "{each}s as errors. If this is intended, swap 0 and 1 in the outcome column"
    ),
    "no period": "{rows} rows have no period: they count in all numbers except those by period",
    "dependent decisions": (
        "decision_table (z, Fisher's exact test, odds ratio, flips) requires independent people, so it is not defined "
        "with weights, clusters or group probabilities"
    ),
    "unobserved groups": (
        "not reported for unobserved groups: ratios, shortfall, standardised difference, output divergence, "
        "sample size to detect, test of equal means; weighted by group probabilities they may understate the gap"
    ),
    "exempt factors of unobserved groups": (
        "the two parts by exempt factors decompose the weighted gap, which understates gaps among people "
        "with the same values of exempt factors that predict the group probabilities"
    ),
    "too many values": "{quantity} is not determined: {features} has too many values for the rows",
    "undefined": "{reason}",
    "inputs only": "{reason} The correction aligns the inputs only.",
    "no inputs": "the correction, its descent rate and the input divergence need features or a propensity column",
    "open-ended": (
        "the input divergence and descent rate have one-sided bounds, because the group-membership model fits poorly"
    ),
    "outputs too close": "the sample size to detect the gap is not reported, because the groups' means are too close",
}
_CONTRIBUTIONS = {
    "adjusted gap by group probabilities": (
        "the adjusted gap is computed with group probabilities as weights; it shows only about {share:.0%} of a gap "
        "among people with the same values of all features"
    ),
    "group probabilities too close": (
        "the adjusted gap is not determined: group probabilities vary too little among people with the same values of "
        "all features"
    ),
    "groups identified": "the adjusted gap is not defined: the features identify the groups completely",
    "poor fit": (
        "the regressions do not fit well enough to determine the adjusted gap: cells of the features hide {size} of "
        "it, which its interval includes"
    ),
    "regressions contradict the model": (
        "the regressions on all features leave {size} of the {output} unexplained, although it is a function of them, "
        "so contributions beyond the others may be wrong"
    ),
    "not accounted for": (
        "the listed features do not account for {gap} of the gap ({interval}); {causes} may account for it"
    ),
    "few rows": ("there are too few rows: half of the bands of contributions beyond the others are wider than ±{size}"),
    "no Shapley: too many values": (
        "Shapley contributions are not reported: {features} has too many values for the rows to be assessed with the "
        "others"
    ),
    "no Shapley: other sum": (
        "Shapley contributions are not reported: they sum to {sum}, where {whole} minus the adjusted gap is {rest}"
    ),
    "sampled orders": (
        "Shapley contributions rest on {orders} orders of the features; their intervals include that error"
    ),
    "Shapley remainder": (
        "the Shapley contributions leave {used}, the gap among people with the same values of the features that the "
        "score uses; among people with the same values of all features it is {equal}"
    ),
    "no features": "no features were listed, so contributions were not estimated",
    "no shares": (
        "shares of the correction are not reported, because the group-membership model fails its checks; share_outputs "
        "does not need it"
    ),
    "no share: no correction": "{share} is not reported, because the total correction cannot be distinguished from 0",
    "no share: merged values": (
        "the share of the correction is not reported for {features}, because rare values were merged for more than "
        "{limit:.0%} of the audited people"
    ),
    "no partners": "partners are not searched for among more than {most} features",
}
_BEYOND = "at least {least} beyond the other features"
_SETTLES_NOTHING = "these data cannot settle it"
SCORES_BEHIND = "the scores or the model behind the decisions, if any"  # would settle whether decisions use a feature
MODEL_ITSELF = "the model itself"
_VERDICTS = {  # reasons for verdicts; `way` is the direction of a contribution, "" if it needs no words
    "alone": "at least {least} on its own{way}",
    "beyond the others": f"{_BEYOND}{{way}}",
    "beyond the others, with a partner": f"{_BEYOND}, with {{partner}}{{way}}",
    "narrows the gap": "; it narrows the gap",
    "higher for a group": ", higher for {group}",
    "lower for a group": ", lower for {group}",
    "within the threshold": "less than {threshold}, alone and beyond the others",
    "no effect": "{size}, alone and beyond the others",
    "hardly visible": "up to {most}, where group probabilities show {part} of a gap; threshold {threshold}",
    "across the threshold": "{span}{way}; threshold {threshold}",
    "inconclusive": "consistent with 0 and with more than {threshold}; {rows}",
    "twice the rows": "at least twice as many rows needed",
    "more rows": "about {rows:,} rows needed",
    "far more rows": f"{_SETTLES_NOTHING} (about {{rows:,}} rows needed)",
    "too many rows": _SETTLES_NOTHING,
    "exempt": "declared as an exempt factor",
    "group or copy": "it is the group or a copy of it, or its values separate the groups completely",
    "separating values": "its values separate the groups completely",
    "plug-in": "plug-in values have no intervals (folds=None, --folds 0)",
    "looks like an identifier": "it looks like an identifier: leave it out, or group its values",
    "too sparse": "it has too many values for the rows: group them, or add rows",
    "too many values together": (
        "it has too many values to be assessed together with the other features; group the values"
    ),
    "rare decision": (
        "fewer than {minimum} people of {group} have the rarer decision, too few for an interval: add people"
    ),
    "rare value": (
        "fewer than {minimum} people of {group} have its rarer value, too few for an interval: add people, or group "
        "its values"
    ),
    "material adjusted gap": "{reason}, but the adjusted gap of {size} may be due to several features together",
    "regressions disagree": (
        "{reason}, but the regressions disagree by {size} on the adjusted gap, so that several features together may "
        "contribute"
    ),
    "hidden in cells": "{reason}, but the regressions may miss how it acts with {others}",
    "one of several used": "the {output}s use at least one of {features}; the data do not show which",
    "stand-in": "{unused}; it is correlated with {others}",
    "scores do not use": "the {output}s do not use it",
    "scores hardly use": "the {output}s do not use it (at most {most})",
    "not an input": "it is not an input of the model",
    "model never changed": (
        "the model's output never changed with it ({rows:,} rows tried: fewer than {share:.2%} of rows)"
    ),
    "unsettled use": "{reason}; {doubt}",
    "use not measured": (
        f"whether the {{output}}s use it was not measured; an audit of {MODEL_ITSELF} would settle it"
    ),
    "use not shown": ("the data do not show whether the {output}s use it (use 0 to {most}); {settles} would settle it"),
}
_DIRECTIONS = {  # of features; `score` and `frequency` are "higher" or "lower", and "more" or "less"
    "every value once": "has no direction: every value occurs once",
    "does not vary": "does not vary",
    "score does not follow": "the {output} does not follow it",
    "equally common": "equally common in both groups",
    "rare values": "each of its values is too rare to describe",
    "no common value": "no common value has the direction of its contribution",
    "higher values": (
        "A higher {feature} is associated with a {score} {output} and is {frequency} common among {group}"
    ),
    "value": "{value} is associated with a {score} {output} and is {frequency} common among {group}",
}
_UNOBSERVED = {  # whether known groups confirm the probabilities
    "no labels": "no labels were given",
    "labels of one group": "all labelled rows are of one group",
    "calibrated": "calibrated on labelled rows, if these represent all rows",
    "few labels": "fewer than {minimum} labelled people of a group",
    "equal probabilities": "all labelled rows have the same probability",
    "one side": "the gap of labelled rows lies on one side of both estimates",
    "calibration open": (
        "{rows:,} labelled rows do not show that the probabilities are calibrated within {limit:.0%}: {slope}"
    ),
    "too extreme": "the probabilities are too extreme: {slope}",
    "not extreme enough": "the probabilities are not extreme enough: {slope}",
    "slope on the probability": (
        "the slope of the group on its probability is {slope:.2f} ({low:.2f} to {high:.2f}) instead of 1, and the "
        "group is {points:.1f} points {way} frequent than predicted"
    ),
    "not judged": "{reason}",
}
_CHANGES = {
    "in one audit": "only the {which} audit has it among the features",
    "not judged in one audit": "{verdict} in the {which} audit: {reason}",
    "no intervals": "there are no intervals",
    "unmatched rows": "{rows:,} rows are in one of the two audits only and count as independent",
    "unmatched influences": (
        "{rows:,} of the rows behind the standard errors of contributions are in one audit only and count as "
        "independent"
    ),
    "changes of weighted gaps": (
        "groups are unobserved, so changes are those of weighted gaps, not of the true gaps ({statuses})"
    ),
}
_REPAIRS = {
    "group needed": "the group of every new row is needed, and its use at prediction time may be regulated",
    "group used to fit": "the group was used to fit the adjustment; new rows are adjusted without it",
    "nothing to adjust": "nothing to adjust: {gap} is {size:+.4f}, within the limit",
    "some outcomes": "{known} of {rows} rows have an outcome; error rates use these only",
    "some costs": "{known:,} of {rows:,} rows have an observed cost; models of costs use these only",
    "few people in a group": (
        "one group has only {people:.0f} people: on new data the gap may miss the limit by {error:.3f} or more"
    ),
    "fitted on a condition": "fitted only on rows with {conditions}; other rows are neither adjusted nor evaluated",
    "exempt factors held equal": (
        "the gap is closed among people with the same {factors}; the part that these exempt factors explain stays"
    ),
    "exempt factors not held equal": (
        "error rates are compared among all people, not among people with the same values of the exempt factors "
        "{factors}"
    ),
    "duplicate counts once": ("1 row is a duplicate in every feature; rows with equal features count as one person"),
    "duplicates count once": (
        "{rows:,} rows are duplicates in every feature; rows with equal features count as one person"
    ),
    "nearly constant rule": "the new rule selects {people} (the audited one {share:.1%})",
    "closed further": (
        "{gap} is closed further than the limit requires, to {size:+.1f} points (limit {limit:g}): " + EQUAL_DECISIONS
    ),
    "limit missed": (
        "the largest gap after the adjustment is {over:.4f} beyond the limit on the audited rows (standard error "
        "{error:.4f}): {reason}"
    ),
    "gap not significant": (
        "the gap before, {gap:+.1f} points (standard error {error:.1f}), is not significantly beyond the limit, so the "
        "adjustment may follow chance"
    ),
    "useless decisions": f"{_AUC}. {_USELESS}",
    "useless scores": f"{_AUC} and the log loss {{loss:.4f}} (a constant score: {{constant:.4f}}). {_USELESS}",
    "not calibrated": (
        "the scores are not calibrated: where they average {score:.2f}, {observed:.0%} have the outcome. Recalibrate "
        "them first, or a more accurate rule may exist"
    ),
}
_NEW_ROWS = {
    "condition not met": "{outside:,} of {rows:,} rows do not meet the condition {conditions}; {treatment}",
    "condition not checked": (
        "the condition {conditions} cannot be checked because the column is missing; all rows are assumed to meet it"
    ),
    "gap regained": (
        "by the group-membership model, {gap} after adjustment is {new:+.1f} points on these rows and {old:+.1f} on "
        "the audited ones. Check units, missing-value codes, and that scores are probabilities of the same outcome"
    ),
    "beyond the audited range": (
        "{count:,} of {rows:,} rows have a value of {feature} beyond the audited range, {low:g} to {high:g}. Check its "
        "unit and its codes for missing values"
    ),
    "unseen values": (
        "{count} of {rows} rows have a value of {feature} that the {model} has not learnt (new, rare, missing or "
        "infinite); they are adjusted like the most common value, or like other rare ones"
    ),
    "rows not checked": "cannot check whether rows were audited without the column {column}",
    "repeated held-out rows": (
        "{rows:,} rows equal another one in every feature and count as separate people. If they are not, pass "
        "`clusters`; otherwise intervals are too narrow"
    ),
    "audited row": "1 held-out row duplicates audited rows; check for leakage",
    "audited rows": "{rows:,} held-out rows duplicate audited rows; check for leakage",
    "rows without outcome": (
        "{missing:,} of {rows:,} rows have no outcome: only quantities that need no outcome use them"
    ),
    "few people with an outcome": (
        "in one group fewer than {minimum} people have one of the outcomes: error rates and the area under the curve "
        "are suppressed for so few"
    ),
}
_ALTERNATIVES = {
    "scores are decisions": (
        "the scores are decisions, so both kinds of error cost the same unless you pass `threshold`"
    ),
    "alternatives ignore exempt factors": "the exempt factors of the audit are not held equal",
    "what-ifs need the model": (
        "what-ifs for single features need the model: pass it as model= (--model) instead of scores"
    ),
    "what-if refused": "{feature} could not be {what_if}: {error}",
    "sampled what-ifs": "what-ifs are evaluated on {rows:,} of the rows",
    "no what-if": "no what-if of a single feature significantly reduces the gap of decisions",
    "strongest what-if": (
        "with {feature} {what_if}, the gap in decision rates is {low:.1f} to {high:.1f} points smaller, and the change "
        "in accuracy is {least:.1f} to {most:.1f} points"
    ),
}
_USE_OF_FLIPS = "Flips are the smallest number of changed decisions, in both groups together, after which"
_OTHER_SIDE = "the rate lies on the other side of {critical:.2f} standard deviations below the highest."
_RULES = {  # notes on rule tables are whole sentences, those on their rows are not
    "no rate": "fewer than {minimum} people, so no rate is shown",
    "no impact ratio": "less than {share:g}% of the data, so no impact ratio is shown",
    "highest rate is 0": "not defined, because the highest rate is 0",
    "only rate": "highest rate, no other group can be compared with it",
    "highest rate": "highest rate, the denominator of the impact ratios",
    "side of the threshold": "{side} the threshold of {threshold}",
    "threshold in the interval": (
        "{side} the threshold of {threshold}; inconclusive, because the interval includes it"
    ),
    "same outcome": "everyone has the same outcome, so there is nothing to test",
    "sparse table": "fewer than {minimum} people are expected in a cell: use Fisher's test, not z",
    "idle strata": (
        "{idle:,} of {strata:,} strata were left out, because they have only one group or only one outcome"
    ),
    "no interval within strata": (
        "the common odds ratio has no interval, because within the strata one group has only one outcome"
    ),
    "intersections": "{rule}",
    "tables missing": "The rule asks for tables by {attributes}; these are by {column} only.",
    "similar groups": "{note}.",
    "suppressed rate": "A rate that one table suppresses may follow from the others: check before you publish them.",
    "highest rate as given": (
        "Intervals and tests take the group with the highest rate as given; they are not adjusted for several groups."
    ),
    "people, not weights": "Tests count people, not weights.",
    "odds ratio of the sample": (
        "The odds ratio is that of the sample; its interval contains the ratios that the z test does not reject."
    ),
    "flips of z": f"{_USE_OF_FLIPS} {_OTHER_SIDE}",
    "flips": f"{_USE_OF_FLIPS} the ratio lies on the other side of {{threshold}}, or {_OTHER_SIDE}",
    "strata": ("Strata are the values of {columns}; the Cochran–Mantel–Haenszel test has no continuity correction."),
    "no stratum": "{people:,} people without a stratum are left out of this test.",
    "no threshold": "The rule states no threshold.",
    "other threshold": "The threshold of {threshold} was chosen here; the rule states {stated}.",
    "other smallest share": "The smallest share of {share:g}% was chosen here; the rule states {stated}.",
    "low decisions are favourable": "Low is favourable here: a 0 counts as selected.",
    "low scores are favourable": "Low is favourable here: the rate is the share below the median.",
    "favourable word": "{word} counts as selected.",
    "people at the median": "{people:,} people have exactly the median score; they do not count as {side} it.",
}
SENTENCES = _DATA | _FEATURES | _MODELS | _ESTIMATES | _CONTRIBUTIONS | _CHANGES | _REPAIRS | _NEW_ROWS | _ALTERNATIVES
SENTENCES |= _RULES | _VERDICTS | _DIRECTIONS | _UNOBSERVED


class Note(str):
    """A sentence about a result, with the code and the values from which it is formatted."""

    __slots__ = ("code", "values")
    code: str
    values: dict[str, Any]

    def __new__(cls, code: str, **values: Any) -> Note:
        """Return the sentence of a code with its values."""
        note = super().__new__(cls, SENTENCES[code].format(**values))
        note.code, note.values = code, values
        return note

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return partial(Note, **self.values), (self.code,)
