"""The correction function, and results from the rows of the sample: profiles, distributions, prototypes, paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, NoReturn, TypedDict

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from tiltlens._analysis.bins import (
    QUANTILES,
    Binned,
    Bins,
    LeastChange,
    Paths,
    PathStop,
    bin_rows,
    bin_scores,
    score_span,
)
from tiltlens._analysis.evidence import disclosed_counts, may_show, withheld
from tiltlens._analysis.prices import Prices
from tiltlens._analysis.splitting import Splitting, splitting
from tiltlens._analysis.unobserved_groups import UnobservedGroup
from tiltlens._estimators.estimate import Estimate
from tiltlens._estimators.influence import Integers, Rows
from tiltlens._estimators.use import ShareForm, shares_along_dial
from tiltlens._formats import FieldTable
from tiltlens._limits import DIAL_POSITIONS, DISTRIBUTION_BINS, SUPPRESSED_BELOW
from tiltlens._rows.features import Feature
from tiltlens._rows.predictions import AskedModel
from tiltlens._rows.sampled_rows import SampledRows
from tiltlens.errors import DataError, NeedsRowsError, SupportError, WeightsError
from tiltlens.paper.checks import Floats, check_weights
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.paper.divergence import check_divergence
from tiltlens.paper.examples import Figure1Paths, figure1_paths
from tiltlens.paper.path import Inputs, PathPoint, path_point, projection
from tiltlens.paper.world import Projection

TIED = 1e-9  # corrections, or shares of people, that differ by less are equal up to rounding
SoftScores = Callable[..., UnobservedGroup]
AGAIN = "audit the data again with tl.audit, or `tiltlens audit`."


SHARES_SCHEMA: dict[str, type[pl.DataType]] = {"position": pl.Float64, "feature": pl.String}
SHARES_SCHEMA |= dict.fromkeys(("share", "low", "high"), pl.Float64)


class Prototype(TypedDict):
    """Values of all features, the number of audited people with them (None below ten), and f~ there."""

    values: dict[str, str | None]
    count: int | None
    correction: float


@dataclass(frozen=True, eq=False)  # without slots, so that expensive results can be cached
class Profiles:
    """The rows of the sample, with their scores, log-odds and correction function."""

    # The rows of both groups as sampled, and in the form for estimators
    sampled: SampledRows
    rows: Rows
    # The score whose gap is measured, and the score of the favourable outcome, in the user's unit
    score: Floats
    favourable: Floats
    correction: CorrectionFunction | None  # None without features or propensity
    # The log-odds from one fit on all rows, and the cross-fitted log-ratio
    log_odds: Floats
    log_ratio: Floats
    confidence: float
    model: AskedModel | None = None  # the audited model; None if scores were given
    given: Mapping[str, str] = field(default_factory=dict)  # the conditions that all rows meet, as texts by column
    soft: SoftScores | None = None  # for unobserved groups, takes scores and returns the estimates of their gap
    priced: Callable[[], Prices | None] | None = None  # compares amounts with observed costs; None without costs

    def profile(self, feature: str) -> pl.DataFrame:
        """See the method of `Comparison` or `Correction`."""
        part = self._feature(feature)
        mine = self.rows.audited
        f, score, weights = self._values(mine), self.score[mine], self.rows.weights[mine]
        audited, reference = (np.bincount(part.codes[who], minlength=len(part.labels)) for who in (mine, ~mine))
        n, n_reference = disclosed_counts(audited), disclosed_counts(reference)
        records = []
        for code, label in enumerate(part.labels):
            record: dict[str, str | float | None] = {"value": label, "n": n[code], "n_reference": n_reference[code]}
            if n[code]:
                cell = part.codes[mine] == code
                record |= _spread(f[cell], weights[cell])
                record["score"] = float(np.average(score[cell], weights=weights[cell]))
            records.append(record)
        return pl.DataFrame(records, schema=PROFILE_SCHEMA)

    def distribution(self, feature: str, bins: int = DISTRIBUTION_BINS) -> pl.DataFrame:
        """See the method of `Comparison` or `Correction`."""
        if not isinstance(bins, int) or isinstance(bins, bool) or bins < 1:
            raise DataError(f"`bins` must be a whole number of at least 1, got {bins!r}.", "40 is the default.")
        part = self._feature(feature)
        mine = self.rows.audited
        f, codes = self._values(mine), part.codes[mine]
        edges = np.histogram_bin_edges(f, bins)
        hidden = withheld(np.bincount(codes, minlength=len(part.labels)))
        records = []
        for code, label in enumerate(part.labels):
            counts = disclosed_counts(np.histogram(f[codes == code], edges)[0])
            for start, stop, count in zip(edges[:-1], edges[1:], counts, strict=True):
                n = None if hidden[code] else count
                records.append({"value": label, "from": float(start), "to": float(stop), "n": n})
        schema = {"value": pl.String, "from": pl.Float64, "to": pl.Float64, "n": pl.Int64}
        return pl.DataFrame(records, schema=schema)

    @cached_property
    def bins(self) -> Bins:
        """See `Comparison.bins`; the features are in their own order."""
        if self.correction is None:
            return bin_scores(self.rows, self.score, self.sampled.unit.is_amount)
        atoms, paths, moved = self.atoms(), figure1_paths(self._inputs()), None
        if paths.end is not None:
            moved = np.zeros(len(self.score))
            moved[atoms] = paths.end
        rows = Binned(
            self.rows,
            self.score,
            score_span(self.score, self.sampled.unit.is_amount),
            self.sampled.scores,
            self.sampled.free_scores,
            self.log_odds,
            log_ratio=self.log_ratio,
            features=self.sampled.features,
            moved=moved,
        )
        return bin_rows(rows, self.correction, *path_stops(paths, self.favourable[atoms]))

    def shares_along_tradeoff(
        self, forms: Mapping[str, ShareForm], positions: int, level: float | None
    ) -> pl.DataFrame:
        """See `Correction.shares_along_tradeoff`; `forms` has the share forms of the features."""
        shares = shares_along_dial(forms, np.linspace(0.0, 1.0, positions).tolist(), level)
        return pl.DataFrame(shares, schema=SHARES_SCHEMA, orient="row")

    @cached_property
    def splitting(self) -> Splitting | None:
        """See the method of `Comparison` or `Correction`."""
        return splitting(self.sampled, self.confidence)

    @cached_property
    def prices(self) -> Prices | None:
        """See the method of `Comparison` or `Correction`."""
        return None if self.priced is None else self.priced()

    def prototypes(self, suppress: bool = True) -> dict[str, Prototype]:
        """See the method of `Comparison` or `Correction`."""
        if not self.sampled.features:
            return {}
        mine = np.flatnonzero(self.rows.audited)
        f = self._values(self.rows.audited)
        codes = np.column_stack([feature.codes[mine] for feature in self.sampled.features])
        indices = {"max": _first(-f, codes), "min": _first(f, codes), "near_zero": _first(np.abs(f), codes)}
        result: dict[str, Prototype] = {}
        for name, index in indices.items():
            count = int((codes == codes[index]).all(axis=1).sum())
            is_shown = not suppress or count >= SUPPRESSED_BELOW
            labels = {
                feature.name: feature.labels[code] if is_shown else None
                for feature, code in zip(self.sampled.features, codes[index].tolist(), strict=True)
            }
            result[name] = {"values": labels, "count": count if is_shown else None, "correction": float(f[index])}
        return result

    def path(self, weights: Sequence[ArrayLike], divergence: str = "kl") -> list[PathPoint]:
        """See the method of `Comparison` or `Correction`."""
        self._known_correction()
        inputs, chosen = self._inputs(), check_divergence(divergence)
        if not np.iterable(weights) or isinstance(weights, str):
            raise WeightsError(f"`weights` must be a list of four numbers each, got {weights!r}.", "see World.path.")
        points: list[PathPoint] = []
        for lam in [check_weights(four) for four in weights]:
            try:
                points.append(path_point(inputs, lam, chosen, points[-1].multipliers if points else None))
            except SupportError:
                hint = "give λ4 the weight 0, or use a divergence that stays finite: 'hellinger', 'js' or 'tv'."
                raise self._out_of_reach(inputs, hint) from None
        return points

    def project(self) -> Projection:
        """See the method of `Comparison` or `Correction`."""
        inputs = self._inputs()
        try:
            q, t = projection(inputs.p0, inputs.channel, inputs.y1)
        except SupportError:
            hint = f"no change of the features of {self.sampled.groups[0]!r} alone removes the gap of this model."
            raise self._out_of_reach(inputs, hint) from None
        return Projection(q, check_divergence("kl").between(q, inputs.p0), t)

    def _feature(self, name: str) -> Feature:
        for feature in self.sampled.features:
            if feature.name == name:
                return feature
        names = [feature.name for feature in self.sampled.features]
        raise DataError(f"`feature` must be one of the audit's features, got {name!r}.", f"they are {names}.")

    def _values(self, mine: NDArray[np.bool_]) -> Floats:
        return np.asarray(self._known_correction()(self.log_odds[mine], self.sampled.scores[mine]))

    def _known_correction(self) -> CorrectionFunction:
        if self.correction is None:
            raise DataError(
                "`features` must name at least one column for results about inputs, got none.",
                "list features, or give a column of P(audited|x) as `propensity`.",
            )
        return self.correction

    def atoms(self) -> NDArray[np.intp]:
        """Return the audited rows with positive weight, in the order of the table."""
        rows = self.rows
        mine = np.flatnonzero(rows.audited & (rows.weights > 0))
        return mine[np.argsort(self.sampled.row_number[mine], kind="stable")]

    def _out_of_reach(self, inputs: Inputs, hint: str) -> SupportError:
        """Return the error for mean scores that no weights on the audited rows can attain.

        Every audited row has mass in both groups' feature distributions, so only the scores can lack support.
        """
        low, high = inputs.channel.min(axis=0), inputs.channel.max(axis=0)
        is_binary = len(low) == 2
        y = 1 if is_binary else int(np.argmax(np.maximum(inputs.y1 - high, low - inputs.y1)))
        outcome = "" if is_binary else f" of outcome {y}"
        audited, reference = self.sampled.groups
        return SupportError(
            f"the mean score{outcome} of {reference!r} must be within reach of the scores of {audited!r}, "
            f"got {inputs.y1[y]:.4g} and scores from {low[y]:.4g} to {high[y]:.4g}.",
            hint,
        )

    def _inputs(self) -> Inputs:
        """Return the rows as a finite world: P0 on the audited rows, P1/P0 ∝ e^{−ℓ}, and Y1 from the reference rows.

        The atoms are the audited rows in the order of the table.
        """
        rows, scores, mine = self.rows, self.sampled.scores, self.atoms()
        channel = scores if scores.ndim == 2 else np.column_stack([1.0 - scores, scores])
        p0 = rows.audited_share[mine]
        log_odds = self.log_odds[mine]
        p1 = p0 * np.exp(-(log_odds - log_odds.min()))
        return Inputs(p0, p1 / p1.sum(), channel[mine], rows.audited_share @ channel, rows.reference_share @ channel)


def path_stops(figure: Figure1Paths, favourable: Floats) -> tuple[Paths, LeastChange | None]:
    """Return both paths and their endpoint as numbers; `favourable` is the favourable probability of each atom."""
    green, red = (
        [PathStop(point.weights[3], point.terms[0], point.terms[3], float(point.q @ favourable)) for point in path]
        for path in (figure.output_path, figure.joint_path)
    )
    if figure.end is None or figure.cost is None:
        return Paths(green, red), None
    return Paths(green, red), LeastChange(figure.cost, float(figure.end @ favourable))


PROFILE_SCHEMA = {
    "value": pl.String,
    "n": pl.Int64,
    "n_reference": pl.Int64,
    "correction": pl.Float64,
    **{f"correction_{round(100 * q)}": pl.Float64 for q in QUANTILES},
    "score": pl.Float64,
}


def _spread(f: Floats, weights: Floats) -> dict[str, float | None]:
    """Return the weighted mean and quantiles of f~; quantiles that could reveal single people are None."""
    levels = np.array(QUANTILES) * (1.0 - TIED)  # a sum of weights may miss a level by rounding
    ends = np.quantile(f, levels, weights=weights, method="inverted_cdf").tolist()
    quantiles: dict[str, float | None] = {}
    for q, end in zip(QUANTILES, ends, strict=True):
        below, above = int((f < end - TIED).sum()), int((f > end + TIED).sum())
        is_shown = may_show(below, f.size - below - above, above)
        quantiles[f"correction_{round(100 * q)}"] = end if is_shown else None
    return quantiles | {"correction": float(np.average(f, weights=weights))}


def _first(values: Floats, codes: Integers) -> int:
    """Return the row of the smallest value; ties are broken by feature values, so that row order does not matter."""
    tied = np.flatnonzero(values <= values.min() + TIED)
    return int(tied[np.lexsort(codes[tied].T[::-1])[0]])


def needs_rows(name: str) -> NeedsRowsError:
    """Return the error of a method that needs an audit in memory."""
    return NeedsRowsError(f"`{name}` requires an audit in memory; a saved audit has no rows.", AGAIN)


class NoRows:
    """A placeholder for the rows that a saved audit lacks: any access raises."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # looked for by copy and pickle
            raise AttributeError(name)
        raise needs_rows(name)


NO_ROWS: Any = NoRows()


@dataclass(frozen=True, slots=True, eq=False)
class CorrectionParts:
    """The parts of a correction that take time to compute.

    Attributes
    ----------
    prototypes
        The feature values where f~ is largest, smallest and nearest to 0.
    tradeoff_table
        The share of each feature in the correction at 21 positions of the slider; empty if it is not determined.
    """

    prototypes: dict[str, Prototype]
    tradeoff_table: Annotated[pl.DataFrame, SHARES_SCHEMA]


@dataclass(frozen=True, slots=True, eq=False)
class Correction(FieldTable):
    """The correction function f~ of a comparison, and the quantities of the paper.

    Every `Estimate` is cross-fitted and debiased. `function`, `epsilon_max`, `profile`, `prototypes`, `path` and
    `project` are plug-in quantities from one fit of the group-membership model on all rows of the sample.

    Attributes
    ----------
    numbers
        The paper's numbers of f~, λ2 and λ4 as input_weight and output_weight, and its affine form; None if there are
        neither features nor a propensity column.
    epsilon_max
        The largest valid step along f~; None without f~.
    descent_rate
        Rate at which a small step along f~ lowers the objective.
    input_divergence, output_divergence
        Divergence between the groups' features, and between their outputs, in nats.
    detection_sample_size
        Sample size to detect the gap, both errors at 5%.
    function
        f~ itself, to be called with log-odds and scores; None if `numbers` is None.
    tradeoff
        Each feature's share of the correction at every (λ2, λ4), with its interval; None where the outputs have no
        finite divergence, or the group-membership model fails its checks.

    Examples
    --------
    >>> import tiltlens as tl
    >>> people = {"sex": ["women"] * 50 + ["men"] * 50, "years": [1] * 30 + [2] * 20 + [1] * 15 + [2] * 35}
    >>> scores = [0.2 * years + 0.3 for years in people["years"]]
    >>> c = tl.audit(people, "sex", reference="men", scores=scores)["women"]
    >>> print(f"{c.correction.descent_rate:.2f}, {c.correction.project().cost:.2f} nats")
    -0.69, 0.18 nats
    >>> c.correction.prototypes()["max"]["values"]
    {'years': '2'}
    """

    numbers: dict[str, float | None] | None
    epsilon_max: float | None
    descent_rate: Estimate | None = field(metadata={"scale": "number"})
    input_divergence: Estimate | None = field(metadata={"scale": "nats"})
    output_divergence: Estimate | None = field(metadata={"scale": "nats"})
    detection_sample_size: Estimate | None = field(metadata={"scale": "count"})
    function: CorrectionFunction | None = field(default=None, metadata={"key": None})
    tradeoff: dict[str, ShareForm] | None = field(default=None, metadata={"key": None})
    _confidence: float | None = None  # level of the intervals of shares; None for plug-in values
    _profiles: Profiles = NO_ROWS

    def profile(self, feature: str) -> pl.DataFrame:
        """Return, per value of a feature, the number of people, their mean f~ and score, and the spread of f~.

        Values of fewer than ten audited people and counts below ten are suppressed; a quantile needs
        ten people who have it, or ten below and ten above.
        """
        return self._profiles.profile(feature)

    def distribution(self, feature: str, bins: int = DISTRIBUTION_BINS) -> pl.DataFrame:
        """Return the distribution of f~ per value of a feature (the paper's Fig. 2), as counts in equal bins.

        Counts of bins with fewer than ten people are suppressed, and so are all bins of a suppressed value.
        """
        return self._profiles.distribution(feature, bins)

    def shares_along_tradeoff(self, positions: int = DIAL_POSITIONS, confidence: float | None = None) -> pl.DataFrame:
        """Return each feature's share of the correction from "align inputs" (position 0) to "align outputs" (1).

        The strongest feature comes first. Plug-in values have no intervals, and the table is empty if outputs have no
        finite divergence. The default confidence is the audit's.
        """
        if not isinstance(positions, int) or isinstance(positions, bool) or positions < 2:
            raise DataError(f"`positions` must be a whole number of at least 2, got {positions!r}.", "21 is usual.")
        level = self._confidence if confidence is None or self._confidence is None else confidence
        return self._profiles.shares_along_tradeoff(self.tradeoff or {}, positions, level)

    def prototypes(self, suppress: bool = True) -> dict[str, Prototype]:
        """Return the feature values where f~ is largest, smallest and nearest to 0 (the paper's Table 1).

        Cells with fewer than ten audited people are suppressed unless `suppress` is False; use that for public data
        only.
        """
        return self._profiles.prototypes(suppress)

    def path(self, weights: Sequence[ArrayLike], divergence: str = "kl") -> list[PathPoint]:
        """Return the correction path, one point for each of the weights (λ1, λ2, λ3, λ4).

        `q` of a point has an entry for each audited row of the sample, in the order of the table.
        """
        return self._profiles.path(weights, divergence)

    def project(self) -> Projection:
        """Return the least change of the audited group's inputs that removes the gap, as weights on its rows."""
        return self._profiles.project()

    def parts(self) -> CorrectionParts:
        """Return the data, beyond the estimates, that JSON and the report need; computing them takes time."""
        return CorrectionParts(self.prototypes(), self.shares_along_tradeoff())

    def __repr__(self) -> str:
        rate = "not defined" if self.descent_rate is None else f"{self.descent_rate.value:.4f}"
        return f"Correction(descent rate {rate})"
