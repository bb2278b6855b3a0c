"""The tables of an audit, each built once for terminal, page, notebook and files; and those of a published rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import polars as pl

from tiltlens._documents import document as doc
from tiltlens._documents.headline import divided, expected, gap_name, leaves_adjusted_gap, shapley_parts, weighted
from tiltlens._documents.quantities import (
    CONTRIBUTIONS,
    CORRECTION_KEYS,
    FEATURES,
    HEADLINE_KEYS,
    Quantity,
    column_format,
    estimate_cell,
    fill,
    format_of,
    quantity,
    quantity_cell,
    quantity_table,
    row_cell,
)
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.verdicts import Verdict
from tiltlens._formats import (
    NOTHING,
    Shown,
    capitalised,
    count,
    interval_name,
    label,
    minus,
    number,
    p_value,
    percent,
    points,
    ratio,
    sentence,
    whole,
)
from tiltlens._results.audit import Audit
from tiltlens._results.comparison import ESTIMATES, Comparison
from tiltlens._results.outputs import Contribution, Rates
from tiltlens._rows.groups import JOINT
from tiltlens._rows.wording import Measure
from tiltlens._rules.measures import MEASURES
from tiltlens._rules.tables import RuleTables

FACTORS = ("reveals", "drives", "alignment", "share")
RANGES = {"alignment": (-1, 1), "share": (0, 1)}  # the full range of a factor
PAIRS = (
    "The alignment of a feature with two values is 1 or −1. With its partner, a feature explains more of the "
    "correction than both do separately. If two features are nearly redundant, either explains what both explain "
    "together."
)
Counts = Mapping[str, Mapping[str, int | None]]  # people by group and decision
MOST_FACTORS = 60  # maximum number of features in the table of factors
LONGEST_REASON = 600  # characters
MATRIX_FEATURES = 8  # maximum number of features in the matrix
NEGLIGIBLE = 0.01  # of the materiality threshold: two estimates of one number that differ less are the same
MARKS = {doc.EVIDENCE: " ●", doc.THE_GROUP: " ■", doc.OPEN: " ?"}  # after a contribution, by the kind of its verdict
UNUSED = "the adjusted gap is among people with the same values of all features, used or not"
REFITTED = "better-fitting regressions estimate the adjusted gap"
MATRIX_NOTE = (
    "Contribution of each feature alone. ● potential proxy · ■ identifies the group · ? no clear verdict · "
    "unmarked: no material contribution, stand-in or exempt."
)


def estimate_table(c: Comparison) -> doc.Table:
    """Return the quantities of the first screen: gap, adjusted gap, ratios, shortfall and rates."""
    rows = [*_present(c, HEADLINE_KEYS)]
    rows[0] = (weighted(rows[0][0], c), rows[0][1])
    rows = [
        (replace(item, definition=f"{divided(c)}, audited ÷ reference{{among}}"), rate)
        if item.key == "impact_ratio"
        else (item, rate)
        for item, rate in rows
    ]
    for key, rates in rates_of_groups(c).items():
        item = quantity(key)
        rows += [(replace(item, label=f"{item.label}, {who}"), rate) for who, rate in zip(doc.BOTH, rates, strict=True)]
    return quantity_table("estimates", rows, doc.measure_of(c), doc.level_of(c))


def rates_of_groups(c: Comparison) -> dict[str, Rates]:
    """Return both groups' means in the direction of the gap; with a metric, also their favourable rates."""
    if c.outputs.metric_rates is not None:
        return {"metric_rate": c.outputs.metric_rates, "favourable_rate": c.outputs.rates}
    return {"favourable_rate" if doc.is_favourable_mean(c) else "metric_rate": doc.mean_estimates(c)}


def _present(c: Comparison, keys: tuple[str, ...]) -> Iterator[tuple[Quantity, Estimate]]:
    """Yield the quantities of these keys that a comparison has."""
    for key in (key for key in keys if key in ESTIMATES):
        estimate = c.estimate(key)
        if estimate is not None and c.scale.score_type in quantity(key).applies:
            yield quantity(key), estimate


def contribution_table(c: Comparison, has_reasons: bool = False) -> doc.Table:
    """Return one row per feature: contributions, use, verdict and, with `has_reasons`, the reason for it."""
    m = doc.measure_of(c)
    keys = [key for key in CONTRIBUTIONS if any(getattr(row, key) is not None for row in c.by_feature)]
    heads = (doc.Column(FEATURES[key].head, is_optional=key == "shapley") for key in keys)
    last = [doc.Column(name, doc.TEXT) for name in ("verdict", "reason")][: 1 + has_reasons]
    table = c.contributions_full.to_dicts()
    write = {key: column_format(table, key, FEATURES[key].scale, m) for key in keys}
    rows = (
        (
            label(row.feature),
            *(estimate_cell(getattr(row, key), write[key]) for key in keys),
            doc.Cell(row.verdict, mark=doc.kind_of(row)),
            *([reason(row)] if has_reasons else []),
        )
        for row in c.by_feature
    )
    return doc.Table.of("contributions", ("feature", *heads, *last), rows)


def shapley_words(c: Comparison) -> str:
    """Return sentences on the sum of Shapley contributions, and on how the remainder differs from the adjusted gap."""
    left, adjusted, m = c.gap_parts.shapley_remainder, c.adjusted_gap, doc.measure_of(c)
    if left is None:
        return ""
    whole = f"{shapley_parts(c)} sum to the {gap_name(c)} of {m.with_unit(m.difference(c.gap.value))}"
    if adjusted is None:
        return f"{whole}."
    apart = f"{m.size(abs(adjusted - left))} {m.unit}".rstrip()
    if leaves_adjusted_gap(c):
        is_same = m.difference(adjusted.value) == m.difference(left)
        is_exact = is_same or abs(adjusted - left) < NEGLIGIBLE * c.scale.materiality
        return f"{whole}." if is_exact else f"{whole}, up to {apart}, because {REFITTED}."
    is_unused = any(row.verdict == Verdict.STAND_IN for row in c.by_feature)
    why = UNUSED if is_unused else REFITTED
    return f"{whole}. The remainder ({m.difference(left)}) differs from the adjusted gap by {apart}, because {why}."


def has_bands(c: Comparison) -> bool:
    """Return whether contributions have simultaneous bands, which the verdicts are based on."""
    return any(row.alone is not None and row.alone.low is not None for row in c.by_feature)


def reason(row: Contribution) -> str:
    """Return the reason for a verdict, with the direction, redundancy and notes of the feature."""
    sentences = [f"{row.reason}."]
    if doc.kind_of(row) == doc.EVIDENCE:
        sentences.append(f"{row.direction}.")
        if row.redundant_with:
            sentences.append(f"It is nearly redundant with {label(row.redundant_with)}.")
    return minus(label(" ".join([*sentences, *([sentence(row.notes)] if row.notes else [])]), LONGEST_REASON))


def factor_table(c: Comparison) -> doc.Table:
    """Return the factors of each feature's contribution, and its share of the correction."""
    m = doc.measure_of(c)
    others = (doc.Column(name, doc.TEXT) for name in ("partner", "nearly redundant with"))
    rows = (
        (
            label(row.feature),
            *(_factor_cell(row, key, m) for key in FACTORS),
            *(label(other or NOTHING) for other in (row.partner, row.redundant_with)),
        )
        for row in c.by_feature[:MOST_FACTORS]
    )
    return doc.Table.of("factors", ("feature", *(FEATURES[key].label for key in FACTORS), *others), rows)


def _factor_cell(row: Contribution, key: str, m: Measure) -> doc.Cell:
    """Return a factor of a contribution, or "not determined" if its interval covers its full range."""
    estimate = getattr(row, key)
    if estimate is not None and (estimate.low, estimate.high) == RANGES.get(key):
        return doc.Cell("not determined")
    return estimate_cell(estimate, format_of(FEATURES[key].scale, m).value)


def factor_words(c: Comparison) -> str:
    """Return the definitions of the columns in the table of factors."""
    words = "; ".join(f"{FEATURES[key].label}: {fill(FEATURES[key].definition, doc.measure_of(c))}" for key in FACTORS)
    return f"{capitalised(words)}. {PAIRS}"


def group_table(audit: Audit) -> doc.Table:
    """Return one row per group: the audited ones, the reference, and those too small to be analysed."""
    m, comparisons = doc.measure_of(audit), [*audit.comparisons.values()]
    first = comparisons[0]
    ratio_key = "bracket" if first.unobserved_group else "impact_ratio"
    keys = [
        *(["adjusted_gap"] if any(c.adjusted_gap is not None for c in comparisons) else []),
        ratio_key,
        *(["shortfall"] if any(c.shortfall is not None for c in comparisons) else []),
    ]
    heads = (
        *("group", f"{m.people}{expected(first)}"),
        fill(quantity(next(iter(rates_of_groups(first)))).label, m),
        weighted(quantity("gap"), first).name(m),
        *(quantity(key).name(m) for key in keys),
    )
    blank = [NOTHING] * (1 + len(keys))
    rate = estimate_cell(doc.mean_estimates(first).reference, m.level)
    rows: list[tuple[object, ...]] = [
        *(
            (
                *(label(c.audited), count(c.rows["audited"]), estimate_cell(doc.mean_estimates(c).audited, m.level)),
                *(quantity_cell(quantity(key), c.estimate(key), m) for key in ("gap", *keys)),
            )
            for c in comparisons
        ),
        (f"{label(first.reference)} (reference)", count(first.rows["reference"]), rate, *blank),
        *((label(name), count(None), NOTHING, *blank) for name in audit.too_small),
    ]
    return doc.Table.of("groups", heads, rows, interval_name(audit.settings.confidence))


def group_matrix(audit: Audit) -> doc.Table:
    """Return one row per group: gap, adjusted gap and each feature's contribution alone, marked by its verdict."""
    m, comparisons = doc.measure_of(audit), [*audit.comparisons.values()]
    names = _largest_first(audit)[:MATRIX_FEATURES]
    keys = [key for key in ("gap", "adjusted_gap") if any(c.estimate(key) is not None for c in comparisons)]
    heads = (weighted(quantity(key), comparisons[0]).name(m) if key == "gap" else quantity(key).name(m) for key in keys)
    rows = []
    for c in comparisons:
        by_name = {row.feature: row for row in c.by_feature}
        estimates = (estimate_cell(c.estimate(key), m.difference) for key in keys)
        rows.append((label(c.audited), *estimates, *(_matrix_cell(by_name.get(name), m) for name in names)))
    features = (doc.Column(label(name, 24), is_optional=True) for name in names)
    return doc.Table.of("matrix", ("group", *heads, *features), rows, interval_name(audit.settings.confidence))


def matrix_note(audit: Audit) -> str:
    """Return how to read the matrix, and how many features it leaves out."""
    features = len(_largest_first(audit))
    if features <= MATRIX_FEATURES:
        return MATRIX_NOTE
    return f"{MATRIX_NOTE} The table has the {MATRIX_FEATURES} largest of {features} features; all are listed by group."


def _largest_first(audit: Audit) -> list[str]:
    """Return the names of the features, those with the largest contribution to the gap of any group first."""
    sizes: dict[str, float] = {}
    for row in (row for c in audit.comparisons.values() for row in c.by_feature):
        sizes[row.feature] = max(sizes.get(row.feature, 0.0), abs(row.alone or 0.0))
    return sorted(sizes, key=lambda name: -sizes[name])


def _matrix_cell(row: Contribution | None, m: Measure) -> doc.Cell:
    if row is None or row.alone is None:
        return doc.Cell(NOTHING)
    kind = doc.kind_of(row)
    return doc.Cell(f"{m.difference(row.alone)}{MARKS.get(kind, '')}", mark=kind, value=row.alone.value)


def check_table(audit: Audit) -> doc.Table:
    """Return the overlap and calibration checks of each group."""
    heads, rows = ("group", doc.Column("checks", doc.TEXT), "AUC", "clipped", "calibration slope"), []
    for c in audit.comparisons.values():
        if (checks := c.checks.balance) is None:
            rows.append((label(c.audited), "not made", *[NOTHING] * 3))
            continue
        reasons = "; ".join(minus(label(reason, LONGEST_REASON)) for reason in checks.reasons)
        numbers = (number(checks.auc, 2), percent(checks.clipped), number(checks.calibration.slope, 2))
        rows.append((label(c.audited), "passed" if checks.is_adequate else f"failed: {reasons}", *numbers))
    return doc.Table.of("checks", heads, rows)


def decile_table(c: Comparison) -> doc.Table:
    """Return the share of each group whose amount lies above each overall decile."""
    m = doc.measure_of(c)
    rows = (
        (
            m.level(row["amount"]),
            *(row_cell(row, group, percent) for group in doc.BOTH),
            row_cell(row, "difference", points),
        )
        for row in c.outputs.decile_shares.iter_rows(named=True)
    )
    return doc.Table.of("deciles", ("above", *doc.BOTH, "gap (points)"), rows, doc.level_of(c))


def decision_table(c: Comparison, counts: Counts) -> doc.Table:
    """Return the table of decision counts by group."""
    rows = (
        (
            label(doc.group_of(c, group)),
            *("suppressed" if people is None else count(people) for people in counts[group].values()),
            count(c.rows[group]),
        )
        for group in doc.BOTH
    )
    return doc.Table.of("two-by-two", ("group", *counts["audited"], doc.measure_of(c).people), rows)


def correction_table(c: Comparison) -> doc.Table | None:
    """Return the quantities of the correction, for statisticians; None if there are none."""
    rows = [*_present(c, CORRECTION_KEYS)]
    return quantity_table("further", rows, doc.measure_of(c), doc.level_of(c)) if rows else None


def rule_document(made: RuleTables) -> doc.Document:
    """Return the document of a rule: its tables, their tests, and the questions that they do not decide."""
    rule = made.rule
    status = f"As of {rule.status_dated}, {rule.status}. Source: {rule.status_source}."
    compared = f"The rule compares {rule.compares}. {_rows(made)}"
    blocks: list[doc.Block] = [doc.Paragraph(f"{rule.citation} ({rule.dated}). {compared}", doc.QUIET)]
    for name, table in made.tables.items():
        tests = made.tests[name]
        groups = [column for column in table.columns if column not in MEASURES]
        blocks += [doc.Heading(f"By {' & '.join(map(label, groups))}", 2), _rule_table(made, "rates", groups, table)]
        blocks.append(doc.Paragraph(f"People with unknown group (excluded): {made.unknown[name]:,}.", doc.QUIET))
        if not tests.is_empty():
            names = ("sizes", "tests", "strata") if made.strata else ("sizes", "tests")
            blocks += [_rule_table(made, part, groups, tests) for part in names]
        rows = (row for frame in (table, tests) for row in frame.iter_rows(named=True) if row["note"])
        blocks += doc.bullets(
            [f"{JOINT.join(label(row[column]) for column in groups)}: {row['note']}." for row in rows]
        )
    last = f"These tables do not decide {rule.does_not_decide}"
    blocks += doc.bullets([*made.notes, last], "Warnings")
    return doc.Document(rule.title, (*blocks, doc.Heading("Status of the rule"), doc.Paragraph(status, doc.QUIET)))


def _rows(made: RuleTables) -> str:
    rows = made.rows
    left_out = f"; {rows['missing_outcome']:,} excluded, outcome missing" if rows["missing_outcome"] else ""
    median = "" if made.median is None else f" Median score: {made.median:g}."
    return f"{rows['read']:,} rows read, {rows['used']:,} used{left_out}. Outcome: {label(made.outcome)}.{median}"


# The columns of each table of a rule: the key of a number, its head and its format.
RULE_COLUMNS: dict[str, dict[str, tuple[str, Shown]]] = {
    "rates": {
        "n": ("people", count),
        "share": ("share", percent),
        "rate": ("{rate} rate", percent),
        "impact_ratio": (quantity("impact_ratio").label, ratio),
    },
    "sizes": {"shortfall": (quantity("shortfall").label, whole), "odds_ratio": ("odds ratio", ratio)},
    "tests": {
        "z": ("z", ratio),
        "z_p_value": ("z test", p_value),
        "fisher_p_value": ("Fisher's test", p_value),
        "ratio_flips": ("flips, ratio", whole),
        "z_flips": ("flips, z", whole),
    },
    "strata": {
        "strata": ("strata", whole),
        "cmh_z": ("CMH z", ratio),
        "cmh_p_value": ("CMH test", p_value),
        "common_odds_ratio": ("common odds ratio", ratio),
    },
}


def _rule_table(made: RuleTables, name: str, groups: list[str], frame: pl.DataFrame) -> doc.Table:
    """Return one row per group; `groups` are the columns with their names, of which the first heads the row."""
    columns = RULE_COLUMNS[name]
    first, *others = map(label, groups)
    heads = (head.format(rate=made.rate) for head, _ in columns.values())
    rows = (
        (
            *(label(row[column]) for column in groups),
            *(
                row_cell(row, key, write) if f"{key}_low" in row else write(row[key])
                for key, (_, write) in columns.items()
            ),
        )
        for row in frame.iter_rows(named=True)
    )
    names = (first, *(doc.Column(other, doc.TEXT) for other in others))
    return doc.Table.of(name, (*names, *heads), rows, interval_name(made.limits.confidence))
