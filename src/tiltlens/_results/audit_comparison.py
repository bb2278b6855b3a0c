"""Comparison of two audits: two models on the same rows, which are paired, or two independent samples.

Every change is new − old. On the same rows, its variance is the sum of squared differences of row errors; otherwise
the interval is [d − √((n − l_n)² + (u_o − o)²), d + √((u_n − n)² + (o − l_o)²)], from the limits of both audits
(Zou and Donner 2008), which for symmetric intervals adds the variances.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import Settings, interval_columns
from tiltlens._analysis.influence_matching import ComparisonErrors, ErrorKey, Pairs, RowErrors, paired, standard_error
from tiltlens._estimators.estimate import Estimate, Normal, difference, quantile, without_noise
from tiltlens._estimators.verdicts import EVIDENCE, Band, Verdict, bands, simultaneous_factor, verdict
from tiltlens._notes import Note
from tiltlens._results.audit import Audit
from tiltlens._results.change import (
    BANDED,
    FEATURE_SCHEMA,
    LINEAR,
    NUMBERS,
    OF_COMPARISONS,
    OF_ERROR_RATES,
    OF_RATES,
    QUANTITIES,
    Change,
    ChangeVerdict,
    GroupChange,
    Origin,
)
from tiltlens._results.comparison import Comparison
from tiltlens._results.outputs import row_estimate
from tiltlens._rows.wording import measure_for
from tiltlens.errors import DataError, quoted
from tiltlens.paper.checks import Floats

CHANGE_VERDICTS = {
    Verdict.NO_MATERIAL_CONTRIBUTION: ChangeVerdict.NO_CHANGE,
    Verdict.SIZE_UNCLEAR: ChangeVerdict.SOME_CHANGE,
    Verdict.INCONCLUSIVE: ChangeVerdict.INCONCLUSIVE,
}
UNKNOWN_PEOPLE = (
    "the audits are treated as independent samples, because it is not clear that they have the same people. If they "
    "do, name an identifier with `clusters` in both"
)
AT_ONCE = (
    "gap",
    "adjusted_gap",
    "gap_explained_by_exempt",
    "gap_given_exempt",
    LINEAR,
)  # simultaneous over all groups, as in audits

Row = dict[str, Any]  # the columns of one feature in a comparison
Key = tuple[str, str]  # a contribution such as "alone", and a feature


def compare(old: Audit, new: Audit, *, paired: bool | None = None) -> Change:
    """Compare two audits: the change in gap, ratios, error rates and contributions of features.

    Parameters
    ----------
    old, new
        Two models on the same rows, or one model on two periods or samples.
    paired
        Whether to pair rows, which gives narrower intervals. None pairs the audits if both name `clusters` and share
        some, or if the features of both show that they contain the same rows.

    Returns
    -------
    Change
        One `GroupChange` per group of both audits, by name.

    Raises
    ------
    TiltlensError
        If the audits differ in groups, reference, outcome, exempt factors or filters, or cannot be paired as asked.

    See Also
    --------
    audit : Measure the gap in one model or period.
    Change : The result.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women", "men"] * 50, "old": [0.4, 0.5, 0.6, 0.8] * 25, "new": [0.5, 0.5, 0.6, 0.7] * 25}
    >>> old, new = (tl.audit(people, "sex", reference="men", scores=name, features=[]) for name in ("old", "new"))
    >>> change = tl.compare(old, new)
    >>> change["women"]
    GroupChange('women' against 'men': change in the gap +0.1000)
    >>> change.paired
    True
    """
    if paired is not None and not isinstance(paired, bool):
        raise DataError(f"`paired` must be True, False or None, got {quoted(paired)}.", "None looks at the rows.")
    for name, audit in (("old", old), ("new", new)):
        if not isinstance(audit, Audit):
            raise DataError(
                f"`{name}` must be an audit, got {quoted(audit)}.",
                "pass two results of tl.audit or tl.read_audit.",
            )
    return change_of(old, new, paired)


def change_of(old: Audit, new: Audit, is_paired: bool | None) -> Change:
    """Return the change between two audits."""
    check_comparable(old, new)
    names = [name for name in new if name in old.comparisons]
    same_rows = old.provenance.rows_sha256 is not None and old.provenance.rows_sha256 == new.provenance.rows_sha256
    errors = [[audit.comparisons[name]._errors for audit in (old, new)] for name in names]
    samples = [[side.sample for side in pair if side is not None] for pair in errors]
    are_ids, is_asked = any(sample.are_ids for pair in samples for sample in pair), is_paired is not None
    if is_paired is None:
        is_paired = same_rows or any(len(pair) == 2 and pair[0].shares_people(pair[1]) for pair in samples)
    comparisons = {}
    for name in names:
        before, after = old.comparisons[name], new.comparisons[name]
        pairs = _Paired.of(before._errors, after._errors, same_rows) if is_paired else None
        comparisons[name] = _group_change(before, after, new.settings, pairs, len(names))
    alone = {name: "old" for name in old if name not in names} | {name: "new" for name in new if name not in names}
    return Change(
        paired=is_paired,
        pairing=_pairing(is_paired, same_rows, are_ids) if is_paired or is_asked else UNKNOWN_PEOPLE,
        group=new.group,
        reference=new.reference,
        score_type=new.score_type,
        favourable=new.favourable,
        confidence=new.settings.confidence,
        materiality=new.settings.materiality,
        too_small=alone,
        old=Origin(dict(old.disclosed().rows), old.provenance),
        new=Origin(dict(new.disclosed().rows), new.provenance),
        comparisons=comparisons,
    )


def _pairing(is_paired: bool, same_rows: bool, are_ids: bool) -> str:
    if is_paired and are_ids:
        return "`clusters` of both audits are paired: intervals are those of each one's difference"
    if is_paired:
        return "the same rows in both audits, so intervals are those of each row's difference"
    if same_rows:
        return "the same rows in both audits, treated as independent as requested, so intervals are too wide"
    return "the two audits are treated as independent samples, as requested"


def check_comparable(old: Audit, new: Audit) -> None:
    """Raise if two audits answer different questions, so that their difference has no meaning."""
    for name in ("group", "reference", "score_type", "favourable"):
        _check_equal(name, getattr(old, name), getattr(new, name))
    _check_equal("confidence", old.settings.confidence, new.settings.confidence)
    for name in ("where", "exempt", "metric"):
        _check_equal(name, *(audit.provenance.question.get(name) for audit in (old, new)))
    if not set(old) & set(new):
        raise DataError(
            f"`old` and `new` must have an audited group in common, got {quoted(', '.join(old))} and "
            f"{quoted(', '.join(new))}.",
            "audit the same groups.",
        )


def _check_equal(name: str, old: object, new: object) -> None:
    if old != new:
        raise DataError(
            f"`old` and `new` must be audits with the same `{name}`, got {quoted(old)} and {quoted(new)}.",
            f"the two gaps are not comparable: repeat one audit with the `{name}` of the other.",
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Paired:
    """Pairs of rows of two audits of one group: of all sampled rows, and of those with errors of contributions."""

    old: ComparisonErrors
    new: ComparisonErrors
    sample: Pairs
    reported: Pairs

    @classmethod
    def of(cls, old: ComparisonErrors | None, new: ComparisonErrors | None, same_rows: bool) -> _Paired:
        if old is None or new is None:
            raise DataError(
                "A paired comparison needs two audits in memory with intervals; one is saved or has plug-in values.",
                "use paired=False, or audit both again without folds=None.",
            )
        scores = (old.of_sample["gap"], new.of_sample["gap"])
        sample = paired(old.sample, new.sample, same_rows, scores)
        return cls(old, new, sample, paired(old.reported, new.reported, same_rows, None))

    def errors(self, key: ErrorKey) -> RowErrors | None:
        """Return the row-wise errors of the change of a quantity, or of a feature's; None if an audit has none."""
        for pairs, old, new in (
            (self.sample, self.old.of_sample, self.new.of_sample),
            (self.reported, self.old.of_reported, self.new.of_reported),
        ):
            if key in old and key in new:
                return pairs.change(old[key], new[key])
        return None


def _group_change(
    old: Comparison, new: Comparison, settings: Settings, pairs: _Paired | None, groups: int
) -> GroupChange:
    """Return the change between the results for one audited group."""
    before, after = _estimates(old), _estimates(new)
    levels = {name: settings.confidence ** (1.0 / (groups if name in AT_ONCE else 1)) for name in QUANTITIES}
    return GroupChange(
        audited=new.audited,
        reference=new.reference,
        rows={"old": old.rows, "new": new.rows},
        scale=new.scale,
        old=before,
        new=after,
        changes={
            name: _displayed(_change(before[name], after[name], levels[name], name, pairs), name, after)
            for name in QUANTITIES
        },
        features=_features(old, new, settings, pairs, groups),
        notes=(*_notes(pairs), *_unobserved_notes(old, new)),
    )


def _estimates(c: Comparison) -> dict[str, Estimate | None]:
    """Return the quantities of a comparison by name; None if one is not defined."""
    linear = None if c.unobserved_group is None else c.unobserved_group.linear
    estimates = {name: c.estimate(name) for name in (*OF_COMPARISONS, *OF_ERROR_RATES)}
    return estimates | dict(zip(OF_RATES, c.rates, strict=True)) | {LINEAR: linear}


def _change(
    old: Estimate | None, new: Estimate | None, confidence: float, key: ErrorKey, pairs: _Paired | None
) -> Estimate | None:
    """Return new − old with the interval of the difference."""
    if old is None or new is None:
        return None
    value = without_noise(new.value - old.value)
    errors = None if pairs is None else pairs.errors(key)
    if errors is not None:
        return Normal(value, _rounded(standard_error(errors))).estimate(confidence)
    if pairs is not None and isinstance(key, tuple):  # a Shapley contribution that does not use all feature sets
        return Estimate(value)
    # the correlation of estimates from the same rows is unknown here: assume the worst case, −1
    return replace(difference(new, old, 0.0 if pairs is None else -1.0), value=value)


def _displayed(change: Estimate | None, name: str, after: Mapping[str, Estimate | None]) -> Estimate | None:
    """Return a change with the display of its quantity; the change of a rate is displayed like a gap."""
    like = after["gap" if name in OF_RATES else name]
    return change if change is None or like is None else change.displayed(like._display)


def _rounded(se: float) -> float:
    return se if se > 1e-15 else 0.0


def _features(old: Comparison, new: Comparison, settings: Settings, pairs: _Paired | None, groups: int) -> pl.DataFrame:
    """Return one row per feature, the largest change of gap(j) first."""
    before, after = ({row["feature"]: row for row in c.contributions_full.iter_rows(named=True)} for c in (old, new))
    both = [name for name in after if name in before]
    changes = _bands(old, new, before, after, both, settings, pairs, groups)
    records = []
    for name in (*both, *(name for name in (*after, *before) if name not in both)):
        record = _record(name, before.get(name), after.get(name))
        if name in both:
            earlier, later = (row_estimate(rows[name], "shapley") for rows in (before, after))
            change = _change(earlier, later, settings.confidence, ("shapley", name), pairs)
            record |= _banded(changes, name) | interval_columns("shapley_change", change)
            record |= _verdict(before[name], after[name], changes, new)
        records.append(record)
    records.sort(key=lambda record: (-round(abs(record["alone_change"] or 0.0), 12), record["feature"]))
    return pl.DataFrame(records, schema=FEATURE_SCHEMA, infer_schema_length=None)


def _record(name: str, before: Row | None, after: Row | None) -> Row:
    record: Row = {"feature": name}
    for number in NUMBERS:
        record |= {f"{number}_old": (before or {}).get(number), f"{number}_new": (after or {}).get(number)}
        record |= {f"{number}_change{end}": None for end in ("", "_low", "_high")}
    reason = Note("in one audit", which="new" if before is None else "old")
    return record | {"verdict": ChangeVerdict.NOT_ASSESSED, "reason": reason}


def _bands(
    old: Comparison,
    new: Comparison,
    before: dict[str, Row],
    after: dict[str, Row],
    both: Sequence[str],
    settings: Settings,
    pairs: _Paired | None,
    groups: int,
) -> dict[Key, Band]:
    """Return the bands of the changes of gap(j) and joint(j), simultaneous over features and groups."""
    keys = [(number, name) for number in BANDED for name in sorted(both)]
    keys = [(k, name) for k, name in keys if before[name][k] is not None and after[name][k] is not None]
    values = [without_noise(after[name][k] - before[name][k]) for k, name in keys]
    confidence = settings.confidence ** (1.0 / groups)
    if not keys:
        return {}
    if pairs is not None:
        return _paired_bands(keys, values, pairs, confidence, settings.random_state)
    factors = [float(c.gap_parts.band_factor or math.nan) for c in (old, new)]
    errors = [
        math.hypot(*(_se(rows[name], k, factor) for rows, factor in zip((before, after), factors, strict=True)))
        for k, name in keys
    ]
    factor = quantile(confidence ** (1.0 / len(keys)))  # Šidák, since saved audits have no correlations
    return dict(zip(keys, bands(values, np.array(errors), factor), strict=True))


def _paired_bands(
    keys: Sequence[Key], values: Sequence[float], pairs: _Paired, confidence: float, seed: int
) -> dict[Key, Band]:
    """Return the bands of paired changes, for the numbers whose errors both audits have."""
    errors = [(key, value, pairs.errors(key)) for key, value in zip(keys, values, strict=True)]
    kept = [(key, value, error) for key, value, error in errors if error is not None]
    covariance = _covariance([error for _, _, error in kept])
    factor = simultaneous_factor(covariance, confidence, seed)
    se = [_rounded(math.sqrt(max(float(variance), 0.0))) for variance in np.diag(covariance)]
    made = bands([value for _, value, _ in kept], np.array(se), factor)
    return {key: band for (key, _, _), band in zip(kept, made, strict=True)}


def _covariance(errors: Sequence[RowErrors]) -> Floats:
    if not errors:
        return np.zeros((0, 0))
    parts = np.column_stack([error.parts[:, 0] for error in errors])
    widest = max(error.between.size for error in errors)
    between = np.column_stack([np.pad(error.between, (0, widest - error.between.size)) for error in errors])
    return parts.T @ parts + between.T @ between


def _se(row: Row, name: str, factor: float) -> float:
    """Return the standard error from the width of a band, or NaN if there is none."""
    if row[f"{name}_low"] is None:
        return math.nan
    return float(row[f"{name}_high"] - row[f"{name}_low"]) / 2 / factor


def _banded(changes: dict[Key, Band], feature: str) -> Row:
    record: Row = {}
    for name in BANDED:
        band = changes.get((name, feature))
        if band is not None:
            ends = (band.low, band.high) if math.isfinite(band.reach) else (None, None)
            record |= interval_columns(f"{name}_change", Estimate(band.value, *ends))
    return record


def _verdict(before: Row, after: Row, changes: dict[Key, Band], new: Comparison) -> Row:
    """Return the verdict on the change of a feature's contribution, by the same rule as an audit's verdicts."""
    for which, row in (("old", before), ("new", after)):
        if row["verdict"] in (Verdict.NOT_ASSESSED, Verdict.IDENTIFIES_GROUP, Verdict.EXEMPT):
            reason = Note("not judged in one audit", verdict=row["verdict"], which=which, reason=row["reason"])
            return {"verdict": ChangeVerdict.NOT_ASSESSED, "reason": reason}
    alone, beyond_others = (changes.get((name, after["feature"])) for name in BANDED)
    rows = sum(new.rows.values())
    if alone is None or not math.isfinite(alone.reach):
        return {"verdict": ChangeVerdict.NOT_ASSESSED, "reason": Note("no intervals")}
    measure = measure_for(new.scale.score_type, new.scale.metric, new.scale.wording)
    visible = 1.0 if new.unobserved_group is None else new.unobserved_group.visible
    counts = new.scale.materiality
    judged = verdict(alone, beyond_others, counts, rows, visible=visible, size=measure.size, unit=measure.unit)
    if judged.verdict in EVIDENCE:
        number = "alone" if judged.verdict == EVIDENCE[0] else "beyond_others"
        return {"verdict": _direction(before[number], after[number]), "reason": judged.reason}
    return {"verdict": CHANGE_VERDICTS[judged.verdict], "reason": judged.reason}


def _direction(old: float, new: float) -> ChangeVerdict:
    """Return the verdict that states the direction of a changed contribution."""
    if min(abs(old), abs(new)) > abs(new - old) / 4 and old * new < 0.0:
        return ChangeVerdict.TURNED
    return ChangeVerdict.MORE if abs(new) > abs(old) else ChangeVerdict.LESS


def _unobserved_notes(old: Comparison, new: Comparison) -> tuple[Note, ...]:
    """Return a note on unobserved groups with the status of each audit's bracket."""
    both = [(when, c.unobserved_group) for when, c in (("old", old), ("new", new)) if c.unobserved_group is not None]
    if not both:
        return ()
    statuses = "; ".join(f"{when}: {soft.status}, {soft.reason}" for when, soft in both)
    return (Note("changes of weighted gaps", statuses=statuses),)


def _notes(pairs: _Paired | None) -> tuple[Note, ...]:
    """Return a note on rows that only one of the two audits has."""
    if pairs is not None and pairs.sample.alone:
        return (Note("unmatched rows", rows=pairs.sample.alone),)
    if pairs is not None and pairs.reported.alone:
        return (Note("unmatched influences", rows=pairs.reported.alone),)
    return ()
