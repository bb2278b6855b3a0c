"""Two audits compared: two models on the same rows, whose errors are subtracted row by row, or two independent samples.

new − old of every quantity. On the same rows the variance is the sum of squares of the rows' differences; otherwise the
interval is [d − √((n − l_n)² + (u_o − o)²), d + √((u_n − n)² + (o − l_o)²)], from the two audits' own ends (Zou and
Donner 2008), which for symmetric ends adds the variances.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tiltlens.analysis.influence_matching import ComparisonErrors, Pairs, RowErrors, paired, standard_error
from tiltlens.errors import DataError
from tiltlens.estimators.estimate import Estimate, Normal, difference, quantile, without_noise
from tiltlens.estimators.verdicts import (
    CLEARED,
    EVIDENCE,
    EXEMPT,
    NOT_JUDGED,
    SOME,
    THE_GROUP,
    Band,
    bands,
    simultaneous_factor,
    verdict,
)
from tiltlens.results.audit import Audit
from tiltlens.results.change import LINEAR, OF_COMPARISONS, OF_ERROR_RATES, OF_RATES, QUANTITIES, Change, GroupChange
from tiltlens.rows.measures import measure_of
from tiltlens.sources.messages import shown

MORE, LESS, TURNED = "carries more than before", "carries less than before", "carries the other way than before"
NO_CHANGE, SOME_CHANGE = "no material change", "some change"
BANDED = ("gap", "joint")
NUMBERS = (*BANDED, "gap_shapley")
UNKNOWN_PEOPLE = (
    "nothing shows that both audits hold the same people, so they are taken as independent samples: if they share "
    "people, name an id with `clusters` in both"
)
AT_ONCE = ("gap", "unexplained", "through_exempt", "at_equal_exempt", LINEAR)  # for all groups, as audits have them

Summary = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One of two audits: its summary, and of an audit in memory the errors of its rows."""

    summary: Summary
    errors: dict[str, ComparisonErrors | None]

    @classmethod
    def of(cls, argument: str, audit: Any) -> Side:
        """Return an audit in memory."""
        if not isinstance(audit, Audit):
            raise DataError(
                f"`{argument}` must be an audit, got {shown(audit)}.",
                "compare what two calls of tl.audit returned, or of tl.read_audit.",
            )
        return cls(audit._numbers(), {name: one._errors for name, one in audit.items()})


def compare(old: Audit, new: Audit, *, paired: bool | None = None) -> Change:
    """Return what changed from one audit to another: the gap, ratios, and which features made the change.

    Parameters
    ----------
    old, new
        Two models on the same rows, or one model on two periods or samples.
    paired
        Whether the people are the same: intervals are then those of their differences, which are narrower. By default
        they are where both audits name `clusters` and share some, or hold the same rows in the features that both have.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women", "men"] * 50, "old": [0.4, 0.5, 0.6, 0.8] * 25, "new": [0.5, 0.5, 0.6, 0.7] * 25}
    >>> old, new = (tl.audit(people, "sex", reference="men", scores=name, features=[]) for name in ("old", "new"))
    >>> change = tl.compare(old, new)
    >>> change["women"]
    GroupChange('women' against 'men': gap +0.1000)
    >>> change.paired
    True
    """
    if paired is not None and not isinstance(paired, bool):
        raise DataError(f"`paired` must be True, False or None, got {shown(paired)}.", "None looks at the rows.")
    return change_of(Side.of("old", old), Side.of("new", new), paired)


def change_of(old: Side, new: Side, is_paired: bool | None) -> Change:
    """Return what changed between two audits."""
    check_comparable(old.summary, new.summary)
    before, after = old.summary["comparisons"], new.summary["comparisons"]
    names = [name for name in after if name in before]
    same_rows = _same_rows(old.summary, new.summary)
    known = [[one.sample for side in (old, new) if (one := side.errors.get(name)) is not None] for name in names]
    are_ids, is_asked = any(one.are_ids for pair in known for one in pair), is_paired is not None
    if is_paired is None:
        is_paired = same_rows or any(len(pair) == 2 and pair[0].shares_people(pair[1]) for pair in known)
    found = {}
    for name in names:
        of_rows = _Paired.of(old.errors.get(name), new.errors.get(name), same_rows) if is_paired else None
        found[name] = _group_change(before[name], after[name], new.summary["settings"], of_rows, len(names))
    only = {name: "old" for name in before if name not in after} | {name: "new" for name in after if name not in before}
    plain = ("group", "reference", "channel", "favourable")
    return Change(
        comparisons=found,
        paired=is_paired,
        pairing=_pairing(is_paired, same_rows, are_ids) if is_paired or is_asked else UNKNOWN_PEOPLE,
        **{name: new.summary[name] for name in plain},
        confidence=new.summary["settings"]["confidence"],
        materiality=new.summary["settings"]["materiality"],
        too_small=only,
        old=_origin(old.summary),
        new=_origin(new.summary),
    )


def _same_rows(old: Summary, new: Summary) -> bool:
    of_rows = [one["provenance"].get("rows_sha256") for one in (old, new)]
    return of_rows[0] is not None and of_rows[0] == of_rows[1]


def _pairing(is_paired: bool, same_rows: bool, are_ids: bool) -> str:
    if is_paired and are_ids:
        return "`clusters` of both audits are paired: intervals are those of each one's difference"
    if is_paired:
        return "the same rows in both audits: intervals are those of each row's difference"
    if same_rows:
        return "the same rows in both audits, taken as independent as asked: intervals are too wide"
    return "the two audits are taken as independent samples, as asked"


def _origin(summary: Summary) -> Summary:
    return {"rows": summary["rows"], "provenance": summary["provenance"]}


def check_comparable(old: Summary, new: Summary) -> None:
    """Raise where the difference of two audits would be no answer to any question."""
    for name in ("group", "reference", "channel", "favourable"):
        _check_equal(name, old[name], new[name])
    _check_equal("confidence", old["settings"]["confidence"], new["settings"]["confidence"])
    for name in ("where", "exempt", "metric", "score_type"):
        _check_equal(name, *(one["provenance"]["question"].get(name) for one in (old, new)))
    if not set(old["comparisons"]) & set(new["comparisons"]):
        raise DataError(
            f"`old` and `new` must have an audited group in common, got {shown(', '.join(old['comparisons']))} and "
            f"{shown(', '.join(new['comparisons']))}.",
            "audit the same groups.",
        )


def _check_equal(name: str, old: Any, new: Any) -> None:
    if old != new:
        raise DataError(
            f"`old` and `new` must be audits with the same `{name}`, got {shown(old)} and {shown(new)}.",
            "a difference of the two would answer no question: audit them alike.",
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Paired:
    """The rows of two audits of one group side by side: those of the samples, and those shown."""

    old: ComparisonErrors
    new: ComparisonErrors
    sample: Pairs
    shown: Pairs

    @classmethod
    def of(cls, old: ComparisonErrors | None, new: ComparisonErrors | None, same_rows: bool) -> _Paired:
        if old is None or new is None:
            raise DataError(
                "`paired` must be of audits in memory with intervals, got one that is saved, or has plug-in values.",
                "use paired=False, or audit both again without folds=None.",
            )
        scores = (old.of_sample["gap"], new.of_sample["gap"])
        sample = paired(old.sample, new.sample, same_rows, scores)
        return cls(old, new, sample, paired(old.shown, new.shown, same_rows, None))

    def errors(self, name: str) -> RowErrors | None:
        """Return the errors of the change of a quantity, None where an audit keeps none of it."""
        for pairs, old, new in (
            (self.sample, self.old.of_sample, self.new.of_sample),
            (self.shown, self.old.of_shown, self.new.of_shown),
        ):
            if name in old and name in new:
                return pairs.change(old[name], new[name])
        return None

    def of_feature(self, name: str, feature: str) -> RowErrors | None:
        """Return the errors of the change of a feature's number."""
        key = (name, feature)
        if key not in self.old.of_features or key not in self.new.of_features:
            return None
        return self.shown.change(self.old.of_features[key], self.new.of_features[key])


def _group_change(old: Summary, new: Summary, settings: Summary, of_rows: _Paired | None, groups: int) -> GroupChange:
    """Return what changed for one audited group."""
    before, after = _estimates(old), _estimates(new)
    levels = {name: settings["confidence"] ** (1.0 / (groups if name in AT_ONCE else 1)) for name in QUANTITIES}
    changes = {f"{name}_change": _change(before[name], after[name], levels[name], name, of_rows) for name in QUANTITIES}
    return GroupChange(
        audited=new["audited"],
        reference=new["reference"],
        rows={"old": old["rows"], "new": new["rows"]},
        old=before,
        new=after,
        **changes,
        features=_features(old, new, settings, of_rows, groups),
        materiality=_counted(new, settings),
        channel=new.get("channel", "scores"),
        criterion=new.get("criterion"),
        notes=(*_notes(of_rows), *_by_chances(old, new)),
    )


def _counted(c: Summary, settings: Summary) -> float:
    """Return the smallest difference that counts, in the unit of the gap."""
    return float(c["materiality"] if "materiality" in c else settings["materiality"])


def _estimates(c: Summary) -> dict[str, Estimate | None]:
    """Return the quantities of a comparison; None where it has none."""
    found: dict[str, Any] = {name: c.get(name) for name in (*OF_COMPARISONS, *OF_ERROR_RATES)}
    found |= dict(zip(OF_RATES, (c["favourable_rates"][who] for who in ("audited", "reference")), strict=True))
    found[LINEAR] = (c.get("soft_group") or {}).get("linear")
    return {name: None if one is None else Estimate(**one) for name, one in found.items()}


def _change(
    old: Estimate | None, new: Estimate | None, confidence: float, name: str, of_rows: _Paired | None
) -> Estimate | None:
    """Return new − old with the interval of the difference."""
    if old is None or new is None:
        return None
    value = without_noise(new.value - old.value)
    errors = None if of_rows is None else of_rows.errors(name)
    if errors is not None:
        return Normal(value, _rounded(standard_error(errors))).estimate(confidence)
    # how estimates of the same rows err together is not known: at worst against each other
    return replace(difference(new, old, 0.0 if of_rows is None else -1.0), value=value)


def _rounded(se: float) -> float:
    return se if se > 1e-15 else 0.0


def _features(old: Summary, new: Summary, settings: Summary, of_rows: _Paired | None, groups: int) -> pl.DataFrame:
    """Return one row a feature, the largest change of gap(j) first."""
    before, after = ({row["feature"]: row for row in c["proxies"]} for c in (old, new))
    both = [name for name in after if name in before]
    found = _bands(old, new, before, after, both, settings, of_rows, groups)
    records = []
    for name in (*both, *(one for one in (*after, *before) if one not in both)):
        record = _record(name, before.get(name), after.get(name))
        if name in both:
            record |= _banded(found, name) | _shapley(before[name], after[name], settings, of_rows)
            record |= _verdict(before[name], after[name], found, settings, new)
        records.append(record)
    records.sort(key=lambda one: (-round(abs(one["gap_change"] or 0.0), 12), one["feature"]))
    return pl.DataFrame(records, schema=SCHEMA, infer_schema_length=None)


def _record(name: str, before: Summary | None, after: Summary | None) -> Summary:
    record: Summary = {"feature": name}
    for number in NUMBERS:
        record |= {f"{number}_old": (before or {}).get(number), f"{number}_new": (after or {}).get(number)}
        record |= {f"{number}_change{end}": None for end in ("", "_low", "_high")}
    only = "new" if before is None else "old"
    return record | {"verdict": NOT_JUDGED, "reason": f"only the {only} audit has it among the features"}


Key = tuple[str, str]


def _bands(
    old: Summary,
    new: Summary,
    before: dict[str, Summary],
    after: dict[str, Summary],
    both: Sequence[str],
    settings: Summary,
    of_rows: _Paired | None,
    groups: int,
) -> dict[Key, Band]:
    """Return the bands of the changes of gap(j) and joint(j), all at once over features and groups."""
    keys = [(number, name) for number in BANDED for name in sorted(both)]
    keys = [(k, name) for k, name in keys if before[name][k] is not None and after[name][k] is not None]
    values = [without_noise(after[name][k] - before[name][k]) for k, name in keys]
    confidence = settings["confidence"] ** (1.0 / groups)
    if not keys:
        return {}
    if of_rows is not None:
        errors = [of_rows.of_feature(*key) for key in keys]
        kept = [place for place, one in enumerate(errors) if one is not None]
        covariance = _covariance([one for one in errors if one is not None])
        factor = simultaneous_factor(covariance, confidence, settings["random_state"])
        se = [_rounded(math.sqrt(max(float(one), 0.0))) for one in np.diag(covariance)]
        found = bands([values[place] for place in kept], np.array(se), factor)
        return {keys[place]: band for place, band in zip(kept, found, strict=True)}
    factors = [float(one.get("band_factor") or math.nan) for one in (old, new)]
    se_of = [
        math.hypot(*(_se(one[name], k, factor) for one, factor in zip((before, after), factors, strict=True)))
        for k, name in keys
    ]
    factor = quantile(confidence ** (1.0 / len(keys)))  # Šidák's: how numbers err together is not saved
    return dict(zip(keys, bands(values, np.array(se_of), factor), strict=True))


def _covariance(errors: Sequence[RowErrors]) -> Any:
    if not errors:
        return np.zeros((0, 0))
    parts = np.column_stack([one.parts[:, 0] for one in errors])
    widest = max(one.between.size for one in errors)
    between = np.column_stack([np.pad(one.between, (0, widest - one.between.size)) for one in errors])
    return parts.T @ parts + between.T @ between


def _se(row: Summary, name: str, factor: float) -> float:
    """Return the standard error behind a band; it is not a number where there is none."""
    if row[f"{name}_low"] is None:
        return math.nan
    return float(row[f"{name}_high"] - row[f"{name}_low"]) / 2 / factor


def _banded(found: dict[Key, Band], feature: str) -> Summary:
    record: Summary = {}
    for name in BANDED:
        band = found.get((name, feature))
        if band is not None:
            ends = (band.low, band.high) if math.isfinite(band.reach) else (None, None)
            record |= _columns(name, Estimate(band.value, *ends))
    return record


def _columns(name: str, change: Estimate) -> Summary:
    return {f"{name}_change": change.value, f"{name}_change_low": change.low, f"{name}_change_high": change.high}


def _shapley(before: Summary, after: Summary, settings: Summary, of_rows: _Paired | None) -> Summary:
    """Return the change of the Shapley value; on the same rows it has an interval where every set was looked at."""
    old, new = (
        None if row["gap_shapley"] is None else Estimate(*(row[f"gap_shapley{end}"] for end in ("", "_low", "_high")))
        for row in (before, after)
    )
    if old is None or new is None:
        return {}
    if of_rows is None:
        found = _change(old, new, settings["confidence"], "gap_shapley", None)
        return {} if found is None else _columns("gap_shapley", found)
    value, errors = without_noise(new.value - old.value), of_rows.of_feature("gap_shapley", after["feature"])
    if errors is None:
        return _columns("gap_shapley", Estimate(value))
    return _columns("gap_shapley", Normal(value, _rounded(standard_error(errors))).estimate(settings["confidence"]))


def _verdict(before: Summary, after: Summary, found: dict[Key, Band], settings: Summary, new: Summary) -> Summary:
    """Return what may be said of the change of a feature, by the rule of an audit's own verdicts."""
    for which, row in (("old", before), ("new", after)):
        if row["verdict"] in (NOT_JUDGED, THE_GROUP, EXEMPT):
            return {"verdict": NOT_JUDGED, "reason": f"{row['verdict']} in the {which} audit: {row['reason']}"}
    gap, joint = (found.get((name, after["feature"])) for name in BANDED)
    rows = sum(new["rows"].values())
    if gap is None or not math.isfinite(gap.reach):
        return {"verdict": NOT_JUDGED, "reason": "there are no intervals to judge by"}
    measure = measure_of(new)
    visible = (new.get("soft_group") or {}).get("visible", 1.0)
    judged = verdict(gap, joint, _counted(new, settings), rows, visible=visible, size=measure.size, unit=measure.unit)
    if judged.verdict in EVIDENCE:
        number = "gap" if judged.verdict == EVIDENCE[0] else "joint"
        return {"verdict": _way(before[number], after[number]), "reason": judged.reason}
    words = {CLEARED: NO_CHANGE, SOME: SOME_CHANGE}
    return {"verdict": words.get(judged.verdict, judged.verdict), "reason": judged.reason}


def _way(old: float, new: float) -> str:
    """Return which way a part of the gap changed."""
    if min(abs(old), abs(new)) > abs(new - old) / 4 and old * new < 0.0:
        return TURNED
    return MORE if abs(new) > abs(old) else LESS


def _by_chances(old: Summary, new: Summary) -> tuple[str, ...]:
    """Return what to know of groups that are known by probabilities: what is said of either audit."""
    found = [(when, one["soft_group"]) for when, one in (("old", old), ("new", new)) if one.get("soft_group")]
    if not found:
        return ()
    told = "; ".join(f"{when}: {soft['status']}, {soft['reason']}" for when, soft in found)
    return (f"groups are known by probabilities: changes are of weighted differences, not of the true ones ({told})",)


def _notes(of_rows: _Paired | None) -> tuple[str, ...]:
    """Return what to know of the change: rows that only one audit has, or shows."""
    notes = []
    if of_rows is not None and of_rows.sample.alone:
        notes.append(f"{of_rows.sample.alone:,} rows are in one of the two audits only: they count as independent")
    elif of_rows is not None and of_rows.shown.alone:
        notes.append(
            f"{of_rows.shown.alone:,} of the rows that tell the errors of features are shown by one audit only: they "
            "count as independent"
        )
    return tuple(notes)


SCHEMA: dict[str, Any] = (
    {"feature": pl.String}
    | {
        f"{name}{part}": pl.Float64
        for name in NUMBERS
        for part in ("_old", "_new", "_change", "_change_low", "_change_high")
    }
    | {"verdict": pl.String, "reason": pl.String}
)
