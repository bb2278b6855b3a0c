"""Summaries to read and draw: the demo's, the same made many, hostile or poor, and those of a small table of people."""

from copy import deepcopy
from functools import cache

import numpy as np
from tests.people import audited, people

from tiltlens._demo import AUDITED, paper_experiment
from tiltlens._results.saved_audits import restore_audit

HOSTILE = [
    "</script><script>alert(1)</script>",
    "a.b[c]['d']\"e\\f\n\x00\u202e",
    "מספר עבירות قبل 👩‍👩‍👧 🧮",
    "x" * 10_000,
    "x" * 9_999 + "y",
]


def typed(part):
    """Return the audit or the comparison of a summary; anything else as it is."""
    if isinstance(part, dict) and "settings" in part:
        return restore_audit(part)
    if isinstance(part, dict) and "contributions" in part:
        return restore_audit(cross_fitted_audit() | {"comparisons": {"only": part}}).comparisons["only"]
    return part


def of_summaries(function):
    """Return a function of results that takes their summaries."""
    return lambda *parts, **options: function(*map(typed, parts), **options)


@cache
def demo():
    return paper_experiment().to_dict()


def plug_in_audit():
    return deepcopy({key: value for key, value in demo().items() if key != "cross_fitted"})


def plug_in():
    return plug_in_audit()["comparisons"][AUDITED]


def cross_fitted_audit():
    return deepcopy(demo()["cross_fitted"])


def cross_fitted():
    return cross_fitted_audit()["comparisons"][AUDITED]


def dial_of(c, feature):
    """Return the rows of one feature in the table of the dial."""
    return [one for one in c["correction"]["tradeoff_table"] if one["feature"] == feature]


def hostile():
    """Return the comparison with names that break careless software."""
    c = cross_fitted()
    new = dict(zip([row["feature"] for row in c["contributions"]], HOSTILE, strict=True))
    c["audited"], c["reference"] = HOSTILE[0], HOSTILE[3]
    for row in c["contributions"]:
        row["feature"] = new[row["feature"]]
    for one in c["correction"]["tradeoff_table"]:
        one["feature"] = new[one["feature"]]
    c["bins"]["profiles"] = {new[name]: found for name, found in c["bins"]["profiles"].items()}
    for found in c["bins"]["profiles"].values():
        for value, name in zip(found["values"], HOSTILE, strict=False):
            value["value"] = name
    for one, name in zip(c["checks"]["balance"]["mismatches"], HOSTILE, strict=False):
        one["name"] = name
    return c


def many(count=200):
    """Return the comparison with many features, weaker and weaker, of both signs."""
    c = cross_fitted()
    first = c["contributions"][0]
    along = dial_of(c, first["feature"])
    c["contributions"], c["correction"]["tradeoff_table"] = [], []
    for place in range(count):
        shrink = 0.97**place
        row = first | {"feature": f"feature {place}", "verdict": "inconclusive", "reason": "more rows would settle it"}
        sign = -1 if place % 3 == 2 else 1
        for name in ("alone", "shapley", "beyond_others"):
            row |= {name: sign * shrink * first[name]}
            ends = sorted(sign * shrink * first[f"{name}{end}"] for end in ("_low", "_high"))
            row |= dict(zip((f"{name}_low", f"{name}_high"), ends, strict=True))
        turn = (place * 0.37) % 1.0
        for name in ("reveals", "drives", "use", "share"):
            part = shrink * (0.4 + 0.6 * turn) if name == "reveals" else shrink * (1.0 - 0.6 * turn)
            row |= {f"{name}{end}": part * first[f"{name}{end}"] for end in ("", "_low", "_high")}
        row["alignment"] = sign * turn
        c["contributions"].append(row)
        for one in along:
            c["correction"]["tradeoff_table"].append(
                one | {name: shrink * one[name] for name in ("share", "low", "high")}
            )
            c["correction"]["tradeoff_table"][-1]["feature"] = row["feature"]
    whole = sum(row["shapley"] for row in c["contributions"])
    for row in c["contributions"]:
        for name in ("shapley", "shapley_low", "shapley_high"):
            row[name] *= (c["gap"]["value"] - c["gap_parts"]["shapley_remainder"]) / whole
    c["bins"]["profiles"] = {row["feature"]: c["bins"]["profiles"]["PriorCounts"] for row in c["contributions"]}
    return c


def one_feature():
    c = cross_fitted()
    c["contributions"] = c["contributions"][:1]
    c["correction"]["tradeoff_table"] = dial_of(c, c["contributions"][0]["feature"])
    return c


def constant():
    """Return a comparison whose only feature says nothing: every number is 0 or missing."""
    c = plug_in()
    row = c["contributions"][0]
    for name, value in row.items():
        if isinstance(value, float):
            row[name] = 0.0
    row["alignment"] = None
    c["contributions"] = [row]
    c["correction"]["tradeoff_table"] = [one | {"share": 0.0} for one in dial_of(c, row["feature"])]
    c["gap"] = {"value": 0.0, "low": None, "high": None}
    c["correction"]["output_divergence"] = {"value": 0.0, "low": None, "high": None}
    c["bins"]["least_change"] = {"cost": 0.0, "favourable_rate": 0.5}
    c["bins"]["path"] = {"green": [], "red": [dict(stop, input_change=0.0) for stop in c["bins"]["path"]["red"]]}
    only = c["bins"]["profiles"]["PriorCounts"]["values"][:1]
    c["bins"]["profiles"] = {"PriorCounts": {"kind": "categorical", "is_ordered": False, "values": only}}
    return c


def suppressed():
    """Return a comparison so small that nothing may be shown."""
    c = cross_fitted()
    for bins in (c["bins"]["score"], c["bins"]["overlap"]):
        for one in bins:
            one["audited"] = one["reference"] = None
    c["bins"]["correction"] = [[None] * 40 for _ in c["bins"]["correction"]]
    c["bins"]["calibration"] = []
    for found in c["bins"]["profiles"].values():
        for value in found["values"]:
            value |= dict.fromkeys(value.keys() - {"value", "label"})
    return c


def undefined():
    """Return a comparison in which every estimate that may be missing is."""
    c = cross_fitted()
    c["impact_ratio"] = c["adjusted_gap"] = c["checks"]["balance"] = c["gap_parts"]["shapley_remainder"] = None
    c["correction"] |= {"tradeoff_table": [], "output_divergence": None, "input_divergence": None}
    c["correction"] |= {"descent_rate": None, "detection_sample_size": None}
    for row in c["contributions"]:
        for name in ("shapley", "share", "alignment", "beyond_others"):
            row |= {f"{name}{end}": None for end in ("", "_low", "_high")}
    c["bins"] |= {"path": {"green": [], "red": []}, "least_change": None}
    c["bins"] |= {"tradeoff": c["bins"]["tradeoff"][:1], "correction": c["bins"]["correction"][:1]}
    return c


def decisions_audit():
    """Return the audit as one of decisions, of which there is an adverse impact ratio."""
    audit = cross_fitted_audit() | {"score_type": "decision"}
    for c in audit["comparisons"].values():
        c["scale"]["score_type"], c["adverse_impact_ratio"] = "decision", dict(c["impact_ratio"])
    return audit


def three_classes():
    c = cross_fitted()
    c["outputs"]["means"] = {"audited": [0.2, 0.3, 0.5], "reference": [0.3, 0.3, 0.4]}
    c["correction"]["numbers"] |= {"on_score1": 0.1, "on_score2": 0.2}
    return c


def empty():
    c = undefined()
    c["contributions"] = []
    c["bins"] |= {"profiles": {}, "score": [], "overlap": [], "calibration": [], "tradeoff": [], "correction": []}
    c["checks"]["balance"] = cross_fitted()["checks"]["balance"] | {"mismatches": []}
    return c


@cache
def _outputs_only():
    return audited(people(), features=[]).to_dict()


@cache
def _with_outcome():
    repaid = (people()["score"] > np.random.default_rng(0).random(people().height)).cast(int)
    options = {"features": ["city", "owner"], "propensity": "chance", "outcome": "repaid"}
    return audited(people().with_columns(repaid=repaid), **options).to_dict()


def with_outcome_audit():
    """Return an audit with error rates."""
    return deepcopy(_with_outcome())


def with_outcome():
    return with_outcome_audit()["comparisons"]["A"]


def without_error_rates():
    """Return a comparison whose outcomes are too few to tell anything."""
    c = with_outcome()
    c["error_rates"] |= dict.fromkeys(("fpr", "fnr", "calibration", "auc"))
    c["error_rates"]["reasons"] = dict.fromkeys(("fpr", "fnr", "calibration", "auc"), "fewer than 10 people")
    hidden = dict.fromkeys(("n", "mean_score", "observed", "observed_low", "observed_high"))
    c["error_rates"]["by_decile"] = [one | hidden for one in c["error_rates"]["by_decile"]]
    return c


def outputs_only_audit():
    """Return an audit without features."""
    return deepcopy(_outputs_only())


def outputs_only():
    return outputs_only_audit()["comparisons"]["A"]


@cache
def _amounts():
    paid = people().with_columns(score=1_000 + 3_000 * people()["score"])
    return audited(paid, score_type="amount", propensity="chance").to_dict()


def amounts_audit():
    """Return an audit of salaries."""
    return deepcopy(_amounts())


def amounts():
    return amounts_audit()["comparisons"]["A"]


SUMMARIES = {
    make.__name__: make
    for make in (
        plug_in,
        cross_fitted,
        hostile,
        many,
        one_feature,
        constant,
        suppressed,
        undefined,
        three_classes,
        empty,
        outputs_only,
        with_outcome,
        without_error_rates,
        amounts,
    )
}
