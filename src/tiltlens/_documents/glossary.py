"""The glossary of the report and the site: definitions of quantities and terms."""

from __future__ import annotations

from tiltlens._documents.document import measure_of
from tiltlens._documents.quantities import FEATURES, QUANTITIES, quantity
from tiltlens._formats import capitalised
from tiltlens._notes import MAY_ACCOUNT_FOR
from tiltlens._results.audit import Audit


def _labelled(entries: dict[str, str]) -> dict[str, str]:
    """Return definitions keyed by the labels of their quantities; other terms stay the same."""
    labels = {key: item.label for key, item in (QUANTITIES | FEATURES).items()}
    return {labels.get(term, term): text for term, text in entries.items()}


GLOSSARY = _labelled(
    {
        "audited, reference": "The group of interest, and the group it is compared with.",
        "score": "The number a model gives a person, from 0 to 100%; its mean is the expected rate of the outcome.",
        "points": "Percentage points: hundredths of the score.",
        "favourable rate": "Share of a group with the favourable outcome; for scores, the expected share.",
        "gap": "Mean score of the audited group minus that of the reference group, in points (statistical parity "
        "difference).",
        "observed outcome": "The true result for a person, such as a repaid loan; 1 is what the score predicts.",
        "fpr": "Share given decision 1 among people without the outcome; for scores, their mean score.",
        "fnr": "Share given decision 0 among people with the outcome; for scores, 1 minus their mean score.",
        "auc": "Area under the ROC curve: probability that a person with the outcome has a higher score than one "
        "without, within a group.",
        "ppv": "Share with the outcome among people given decision 1 (precision); 1 minus the false discovery rate.",
        "fdr": "Share without the outcome among people given decision 1. The false omission rate is the share with the "
        "outcome among people given decision 0.",
        "impact_ratio": "Favourable rate of the audited group divided by that of the reference group; for scores, a "
        "ratio of expected rates. Published rules often divide by the highest rate of all groups: see the "
        "command tiltlens rule.",
        "adverse_impact_ratio": "The lower of the two decision rates divided by the higher, compared with four fifths "
        "(0.80).",
        "shortfall": "Additional audited people who would have the favourable outcome at the reference group's rate.",
        "confidence sequence": "Ranges at repeated looks at growing data that contain the true value at all looks "
        "in the stated share of cases.",
        "confidence interval (CI)": "A range that contains the true value in the stated share of samples.",
        "simultaneous confidence band": "Intervals of all features' contributions that contain all true values at once "
        "in the stated share of samples. Verdicts are read from them.",
        "alone": "The gap minus the gap among people with the same value of the feature. Features overlap, "
        "so these contributions do not sum to the gap.",
        "beyond_others": "Change in the adjusted gap when the feature is left out of the list; 0 for a duplicated "
        "feature.",
        "shapley": "The feature's part if all features share the explained gap (Shapley value). "
        "Shapley contributions and the adjusted gap, or the remainder that the report states, sum to the gap.",
        "adjusted_gap": "The gap among people with the same values of all listed features (Oaxaca–Blinder: "
        f"unexplained part). {capitalised(MAY_ACCOUNT_FOR)} may account for it.",
        "robustness_value": "How strong an omitted factor must be to account for the adjusted gap: the share of the "
        "remaining variance that it explains, of both the scores and group membership.",
        "exempt (legitimate) factors": "Features that the auditor declared legitimate. The gap that they explain is "
        "reported separately. tiltlens does not assess that choice.",
        "materiality": "The smallest gap that matters to this audit.",
        "overlap and calibration checks": "Whether people of each group have counterparts in the other, and whether "
        "predicted group membership agrees with the data.",
    }
)
FOR_STATISTICIANS = _labelled(
    {
        "reveals": "2·sd of P(audited | feature), both groups weighted equally: 0 if the feature is distributed "
        "equally, 1 if it identifies the group.",
        "drives": "2·sd of the mean score by value of the feature, within groups.",
        "use": "2·sd of the score as the feature varies while the group and all other features stay the same. It is an "
        "upper bound on the gap that use of the feature can account for.",
        "alignment": "Correlation between how a feature's values reveal the group and how they drive the score. The "
        "contribution alone is reveals × drives × alignment, up to estimation error.",
        "correction": "The direction in which the audited group's feature distribution would have to shift for the "
        "divergence between the groups to fall fastest: positive for under-represented profiles, negative for "
        "over-represented ones. It is not a plan to change anybody.",
        "share": "The part of the correction achieved by shifting this feature's distribution alone.",
        "group-membership model (propensity)": "A model of P(audited | features), needed for the input divergence.",
        "descent_rate": "How fast a small step along the correction lowers the objective; 0 if there is nothing to "
        "align.",
        "divergence": "Kullback–Leibler divergence between two distributions, in nats (natural logarithm). For scores "
        "it is that of the mean rates; small ones are about (p − q)²/(2q(1 − q)), where p and q are the two rates.",
        "standardised_difference": "The gap divided by the root of the mean of both groups' variances.",
        "weighting slider": "Whether the correction aligns the groups' inputs (left), their outputs (right) or both.",
    }
)
OF_OUTCOMES = (
    "observed outcome",
    *(quantity(key).label for key in ("fpr", "fnr", "auc", "ppv", "fdr")),
)  # needed only with an outcome
# Replacements for amounts, by the key of the entry replaced; None removes it.
OF_AMOUNTS: dict[str, tuple[str, str] | None] = {
    "score": ("amount", "The number a model gives a person: money, days or another unit of the data."),
    "points": ("units", "The unit of the amount; M: millions, bn: billions, tn: trillions."),
    "favourable rate": ("mean amount", "Mean over the people of a group."),
    "gap": ("gap", "Mean amount of the audited group minus that of the reference group, in units."),
    **dict.fromkeys(OF_OUTCOMES),
    "impact ratio": ("impact ratio", "Mean amount of the audited group divided by that of the reference group."),
    "adverse impact ratio": (
        "overall deciles",
        "Values that a tenth, two tenths … of all compared people do not exceed.",
    ),
    "shortfall": ("shortfall", "Total by which the audited group is worse off than at the reference group's mean."),
    "materiality threshold": (
        "materiality threshold",
        "The smallest gap that matters to this audit: a number of standard deviations of the amount.",
    ),
}
OF_DECISIONS = {
    "decision": "Result for a person, 1 or 0, or one of two words such as approved and declined. It may come from a "
    "model or from people.",
    "decision rate": "Share of a group with decision 1; for decisions with names, the favourable one.",
}
OF_COSTS = {
    "observed cost": "Cost of a person, such as claims per unit of exposure (burning cost).",
    "exposure": "How long, or how much, a row was insured: the weight of the row. Costs and prices are per unit of it.",
    "expected cost (pure premium)": "Mean cost of people with the same features, by group: the technical price before "
    "expenses and margins.",
    "actual to expected (A/E)": "Observed cost divided by price. Above 1, the price is too low.",
    "proxy discrimination (PD)": "Share of the price's variance that remains after the nearest constant plus mixture "
    "of the groups' expected costs. It is 0 if the price treats the features equally in all groups.",
    "gap beyond the mixture of expected costs": "Gap of the price minus that of this mixture, in money. A feature's "
    "contribution to it is the part of its contribution to the gap that expected costs do not account for.",
    "variance between the groups (UF)": "Share of the price's variance that lies between the groups' means.",
    "discrimination-free price": "The groups' expected costs at a person's features, mixed by the groups' shares of "
    "all people.",
    "proxy vulnerability": "The best price without the group minus the discrimination-free price: the part of the "
    "price, in money, that is associated with the group.",
}  # only for amounts with observed costs
OF_CHANCES = {
    "group probability": "The probability of being in a group that is not observed (e.g. BISG). Each row counts in "
    "every group by its probability, so numbers of people are expected ones.",
    "weighted, linear": "Two estimates of the gap from group probabilities. Each is right under its own assumption; if "
    "they err in opposite directions, the gap lies between them.",
}


def glossary(audit: Audit) -> dict[str, str]:
    """Return the terms in the report of an audit, with their definitions."""
    m, comparisons, unused = measure_of(audit), list(audit.comparisons.values()), _unused(audit)
    used = {name: text for name, text in GLOSSARY.items() if name not in unused}
    unobserved = OF_CHANCES if any(c.unobserved_group for c in comparisons) else {}
    if m.is_amount:
        entries = {name: OF_AMOUNTS.get(name, (name, text)) for name, text in used.items()}
        costs = OF_COSTS if any(c.prices is not None for c in comparisons) else {}
        terms = {name: text.replace("the score", "the amount") for name, text in filter(None, entries.values())}
        return terms | costs | unobserved
    terms = used | {
        "points": f"Percentage points: hundredths of the {m.output}.",
        "gap": f"{m.mean.capitalize()} of the audited group minus that of the reference group, in points.",
    }
    if m.each == "decision":
        terms = {name: text for name, text in terms.items() if name != "score"} | OF_DECISIONS
    return terms | unobserved


def _unused(audit: Audit) -> set[str]:
    """Return the terms that the report of an audit does not use."""
    m, comparisons = measure_of(audit), list(audit.comparisons.values())
    used_with = {
        OF_OUTCOMES: any(c.error_rates or c.scale.metric for c in comparisons),
        ("exempt (legitimate) factors",): any(c.gap_parts.exempt for c in comparisons),
        ("confidence sequence",): audit.monitor is not None,
        ("adverse impact ratio",): m.each != "score",
    }
    return {name for names, is_used in used_with.items() if not is_used for name in names}


def for_statisticians(audit: Audit) -> dict[str, str]:
    """Return the terms in the part for statisticians, with their definitions."""
    m = measure_of(audit)
    return {
        name: text.replace("mean score", m.mean).replace("the score", f"the {m.output}")
        for name, text in FOR_STATISTICIANS.items()
    }
