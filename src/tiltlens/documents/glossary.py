"""What the words of the page mean."""

from __future__ import annotations

from typing import Any

from tiltlens.rows.measures import UNITS, measure_of

GLOSSARY = {
    "audited, reference": "The group looked at, and the group it is compared with.",
    "score": "The number a model gives a person, from 0 to 100 %; its mean is the expected rate of that outcome.",
    "points": "Percentage points: hundredths of the score.",
    "favourable rate": "How often a group gets the outcome that a person wants; of scores, how often it may expect it.",
    "difference, gap": "Mean score of the audited group minus that of the reference group, in points.",
    "outcome": "What came of a person, such as a loan that was repaid; 1 is what the score is the probability of.",
    "false positive rate": "Of people without the outcome, how often they get decision 1; of scores, their mean score.",
    "false negative rate": "Of people with the outcome, how often they get decision 0; of scores, 1 less their mean.",
    "area under the curve": "How often, of two people of one group, the one with the outcome has the higher score.",
    "rate ratio": "Favourable rate of the audited group divided by that of the reference group; of scores, a ratio "
    "of mean scores.",
    "lower ÷ higher rate": "The lower of the two compared rates of decisions divided by the higher, beside the line of "
    "four fifths (0.80). The adverse impact ratio of a published rule divides by the highest rate of all groups: see "
    "`tiltlens rule`.",
    "people affected, shortfall": "How many more audited people would have the favourable outcome at the reference "
    "group's rate.",
    "interval": "A range that holds the true value in the stated share of samples such as this one.",
    "band": "Intervals of all features, alone and with the others, that hold at once in the stated share of samples. "
    "Verdicts are read from them.",
    "by itself": "What of the difference goes through the feature: how much smaller it is between people alike in this "
    "feature. Features overlap, so these do not add up.",
    "with the others": "What of the difference would be lost without the feature, all others being there. Nothing "
    "where others carry the same; of the other sign where the feature offsets what others carry.",
    "adding up": "The feature's part where all features are taken together (Shapley value). These parts, with what is "
    "left between people alike in all listed features, add up to the difference.",
    "left between people alike in all listed features": "The part of the difference that none of the features can "
    "carry: the score knows the group in another way.",
    "exempt factors": "Features that whoever asked holds to be lawful reasons. What goes through them is told apart; "
    "what is said of other features is of the difference between people equal in them. Whether they are lawful is not "
    "a statistical question.",
    "what counts": "The smallest number of points that matters to this audit (its materiality).",
    "comparability check": "Whether people of each group have counterparts in the other, and whether the model of who "
    "is in which group agrees with the data.",
}

# Beside a technical term, wherever one is printed: the same words in the report, on the terminal and on the site.
PLAIN_WORDS = {
    "alignment": "whether what tells the groups apart also moves the score",
    "correction": "the shift that would help most",
    "descent rate": "pull towards the reference",
    "dial": "what is to be made alike",
    "divergence": "distance",
    "drives": "moves the score",
    "input divergence": "distance of the inputs",
    "joint": "with the others",
    "materiality": "what counts",
    "membership model": "model of who is in which group",
    "nats": "the unit of that distance",
    "output divergence": "distance of the outcomes",
    "reveals": "tells the groups apart",
    "Shapley value": "adding up",
    "share": "part of the shift",
    "standardised difference": "gap in standard deviations",
    "use": "how far the score moves with it",
    "unexplained": "left between people alike in all listed features",
}

FOR_STATISTICIANS = {
    "reveals": "2·sd of the chance of being audited given the feature, both groups weighing the same: 0 when it is "
    "distributed alike, 1 when it tells the group.",
    "drives": "2·sd of the mean score by value of the feature, the group held fixed.",
    "use": "2·sd of the score as the feature varies, the group and all other features held fixed. Use of the feature "
    "accounts for no more than this of any gap.",
    "alignment": "Correlation of the two: 1 or −1 when what reveals the group is what drives the score. Points by "
    "itself are reveals × drives × alignment.",
    "correction": "The direction in which the audited group's inputs would have to shift for the distance between the "
    "groups to fall fastest, near where they are: positive for profiles that are under-represented, negative for "
    "over-represented ones. It is not a plan to change anybody.",
    "share": "The part of the correction to be had by moving this feature's distribution alone.",
    "membership model": "A model of who is in the audited group, from the features; needed to know how far apart the "
    "groups' inputs are.",
    "descent rate": "How fast a small step along the correction lowers the objective; 0 where nothing is to align.",
    "divergence": "A distance between two distributions (Kullback–Leibler), in nats; 0 when they are equal.",
    "nats": "Divergences are in natural logarithms. Small ones are about half the square of a difference in standard "
    "deviations: 0.005 nats are a tenth of a standard deviation.",
    "standardised difference": "The gap divided by the root of the mean of both groups' variances.",
    "dial": "Whether the correction is asked to align the inputs of the groups (left), their outputs (right) or both.",
}

# Of amounts, in the place of the entry of that name; what has no name is left out.
OF_AMOUNTS: dict[str, tuple[str, str] | None] = {
    "score": ("amount", "The number a model gives a person: money, days or whatever the data hold, in their unit."),
    "points": (
        "units",
        "Of the amount, as the data have it; M: millions, bn: billions (thousand millions), tn: trillions.",
    ),
    "favourable rate": ("mean amount", "Of the people of a group."),
    "difference, gap": (
        "difference, gap",
        "Mean amount of the audited group minus that of the reference group, in units.",
    ),
    "outcome": None,
    "false positive rate": None,
    "false negative rate": None,
    "area under the curve": None,
    "rate ratio": (
        "ratio of mean amounts",
        "Mean amount of the audited group divided by that of the reference group; only where both are above 0.",
    ),
    "lower ÷ higher rate": (
        "beyond the deciles",
        "The share of each group whose amount lies beyond a value that a tenth, two tenths and so on of all compared "
        "people do not exceed.",
    ),
    "people affected, shortfall": (
        "worse off in total",
        "How much less the audited people have together than at the reference group's mean; how much more, where a "
        "person wants a small amount.",
    ),
    "what counts": (
        "what counts",
        "The smallest difference that matters to this audit (its materiality): a number of standard deviations of the "
        "amount, told in units.",
    ),
}


# Only where people's outcomes are known.
OF_OUTCOMES = ("outcome", "false positive rate", "false negative rate", "area under the curve")
DECISION_RATE = "How often a group gets decision 1; of decisions with names, the one that a person wants."
OF_CHANCES = {
    "chance": "The probability of being in a group, where the group itself is not known. A row counts in each group by "
    "its chance, so numbers of people are expected ones.",
    "weighted, linear": "Two estimates of the difference from chances. Each is right only where its own assumption "
    "holds; where they miss on different sides, the true difference lies between them.",
}


def glossary(summary: dict[str, Any]) -> dict[str, str]:
    """Return what the words that an audit is told in mean."""
    m, comparisons = measure_of(summary), list(summary["comparisons"].values())
    of_chances = OF_CHANCES if any(c["soft_group"] for c in comparisons) else {}
    if m is UNITS:
        entries = {name: OF_AMOUNTS.get(name, (name, text)) for name, text in GLOSSARY.items()}
        found = {name: text.replace("the score", "the amount") for name, text in filter(None, entries.values())}
        return found | of_chances
    found = GLOSSARY | {
        "points": f"Percentage points: hundredths of the {m.output}.",
        "difference, gap": f"{m.mean.capitalize()} of the audited group minus that of the reference group, in points.",
    }
    if not any(c["error_rates"] or c["criterion"] for c in comparisons):
        found = {name: text for name, text in found.items() if name not in OF_OUTCOMES}
    return found | ({"decision rate": DECISION_RATE} if m.output == "decision rate" else {}) | of_chances


def for_statisticians(summary: dict[str, Any]) -> dict[str, str]:
    """Return the same for statisticians."""
    m = measure_of(summary)
    found = {
        name: text.replace("mean score", m.mean).replace("the score", f"the {m.output}")
        for name, text in with_plain_words(FOR_STATISTICIANS).items()
    }
    if m is not UNITS:
        return found
    deciles = "Of outputs, and of the correction towards them: the pooled decile of the amount."
    units = {"alignment": found["alignment"].replace("Points", "Units")}
    return found | units | {"divergence": f"{found['divergence']} {deciles}"}


def with_plain_words(entries: dict[str, str]) -> dict[str, str]:
    """Return the entries, each with its plain words before it."""
    return {name: f"In plain words: {PLAIN_WORDS[name]}. {text}" for name, text in entries.items()}
