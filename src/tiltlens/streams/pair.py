"""A pair of groups known by its sums: the `Pair` and the `People` of a stream."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
import polars as pl

from tiltlens.errors import DataError, SupportError
from tiltlens.estimators import outputs
from tiltlens.estimators.estimate import Integers, Rows
from tiltlens.estimators.shapley import compact
from tiltlens.estimators.shares import CellSums
from tiltlens.estimators.summed import Partition, Polynomial, PowerSums, SummedRows, SummedScores
from tiltlens.models.balance import (
    Balance,
    Mismatch,
    balance_of,
    calibrated,
    fitting_noise,
    known_density_ratio,
    mismatch,
)
from tiltlens.models.features import MISSING, Feature
from tiltlens.models.membership import Membership, ranked_area
from tiltlens.paper.checks import Floats
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.paper.figure1 import figure1_paths as ways
from tiltlens.paper.moments import GroupMoments
from tiltlens.paper.path import Inputs, PathPoint, projection
from tiltlens.paper.world import Projection
from tiltlens.results.bins import QUANTILES, calibration_edges, described, dial_corrections, quantiles_of
from tiltlens.results.counting import Tallies, ValueTally
from tiltlens.results.disclosure import withheld
from tiltlens.results.pairs import SAMPLED_ROWS, Learning, PairSample, WithoutEquals
from tiltlens.results.profiles import PROFILE_SCHEMA, prototype, summary_of
from tiltlens.streams.later import Later
from tiltlens.streams.learning import Learner
from tiltlens.streams.levels import Levels
from tiltlens.streams.plan import PairPlan
from tiltlens.streams.powers import Powers, Summed
from tiltlens.streams.sample import GROUP, LOG_ODDS, PEOPLE, SCORE, WEIGHT, RowSample
from tiltlens.streams.tallies import EXPECTED, Extreme, PairChecks, TallyPlan, balance_rows


class _Third(NamedTuple):
    """What the third pass was asked and found."""

    plan: TallyPlan
    checks: PairChecks
    bins: Later[Tallies]


@dataclass(eq=False)
class PairSums:
    """A pair of groups as sums; the third pass is made when the correction is known.

    `tally` runs a third pass, `sample_rows` are some of the pair's rows, and `learner` has those that models learn
    from.
    """

    plan: PairPlan
    found: Powers
    summed: Summed
    sample_rows: RowSample
    tally: Callable[[TallyPlan], tuple[PairChecks, Later[Tallies]]]
    learner: Learner | None = None
    _third: _Third | None = field(default=None, init=False)

    @property
    def rows(self) -> SummedRows:
        """As of `Pair`."""
        return self.summed.rows

    @property
    def scores(self) -> SummedScores:
        """As of `Pair`."""
        return self.summed.scores

    @property
    def outcome(self) -> Polynomial:
        """As of `Pair`."""
        return self.summed.outcome

    @property
    def favourable(self) -> Polynomial:
        """As of `Pair`."""
        is_low = self.plan.outcomes == 1 and self.plan.favourable == 0
        return 1.0 - self.outcome if is_low else self.outcome

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """As of `Pair`."""
        pairs = zip(self.plan.levels, self.summed.partitions, strict=True)
        return tuple(levels.feature(partition) for levels, partition in pairs)

    def score_columns(self) -> SummedScores:
        """As of `Pair`."""
        return self.scores

    @property
    def auc(self) -> float:
        """How often ℓ ranks an audited row before a reference row."""
        _, _, w0, w1, _, _ = self.ratios.T
        return ranked_area(w0 / w0.sum(), w1 / w1.sum())

    @cached_property
    def ratios(self) -> Floats:
        """The sums of `RatioBins`, in fine bins of ℓ, or by the values of ℓ where all rows are known."""
        if not self.sample_rows.is_complete or self.plan.fitted is not None:
            return self.found.ratios.filled
        frame = self.sample_rows.frame
        ell, place = np.unique(frame[LOG_ODDS].to_numpy() - self.plan.prior, return_inverse=True)
        people = frame[PEOPLE].to_numpy()
        w0 = np.where((frame[GROUP] == self.plan.audited).to_numpy(), people * frame[WEIGHT].to_numpy(), 0.0)
        w1 = people * frame[WEIGHT].to_numpy() - w0
        n, weight0, weight1 = (np.bincount(place, column, len(ell)) for column in (people, w0, w1))
        return np.column_stack([n, n * ell, weight0, weight1, weight0 * ell, weight1 * ell])

    def moments(self, log_odds: Polynomial) -> tuple[GroupMoments, GroupMoments]:
        """As of `Pair`."""
        reference, audited = (self._moments(getattr(self.rows.undivided, who)) for who in ("reference", "audited"))
        return reference, audited

    def _moments(self, sums: PowerSums) -> GroupMoments:
        """Return Σ w·z and Σ w·z·zᵀ of z = (ℓ, W_1, …) less its pivot; of K columns the first is left out."""
        plan, place = self.plan, {e: number for number, e in enumerate(self.rows.exponents)}
        scores = range(plan.outcomes) if plan.outcomes == 1 else range(1, plan.outcomes)
        variables = [0, *(plan.first_score + y for y in scores)]
        units = [np.eye(plan.variables, dtype=int)[variable] for variable in variables]
        first = np.array([sums.first[0, place[tuple(u.tolist())]] for u in units])
        second = np.array([[sums.first[0, place[tuple((u + v).tolist())]] for v in units] for u in units])
        pivot = plan.pivot[[0, *(1 + y for y in scores)]]
        weight = float(sums.first[0, place[(0,) * plan.variables]])
        return GroupMoments.from_sums(int(sums.counts[0]), weight, pivot, first, second)

    def smallest(self, correction: CorrectionFunction, log_odds: Polynomial) -> float:
        """As of `Pair`; makes the third pass."""
        plan = self._tally_plan(correction)
        self._third = _Third(plan, *self.tally(plan))
        return self.third.checks.extremes["min"].correction

    @property
    def third(self) -> _Third:
        """What the third pass was asked and found."""
        if self._third is None:
            raise RuntimeError("the third pass needs the correction first")
        return self._third

    def _tally_plan(self, correction: CorrectionFunction) -> TallyPlan:
        people, total = self.ratios[:, 0], self.ratios[:, 1]
        edges = calibration_edges(_Repeated(people, total / people).quantiles)
        dialled = tuple(f for _, f in dial_corrections(correction))
        counts = [partition.reference.counts > 0 for partition in self.summed.partitions]
        return TallyPlan(self.plan, (*dialled, correction), edges, self._tilt(), self.scales, tuple(counts))

    @cached_property
    def scales(self) -> tuple[tuple[float, float], ...]:
        """Mean and standard deviation of each numeric feature."""
        found = []
        for (count, first, second), centre in zip(self.found.numbers.sums, self.plan.centres, strict=True):
            mean = first / count if count else 0.0
            spread = second / count - mean**2 if count else 0.0
            found.append((float(centre + mean), float(np.sqrt(max(spread, 0.0)))))
        return tuple(found)

    def equal_outputs(self, seed: int) -> outputs.EqualOutputsTest:
        """As of `Pair`; few rows are all in the sample, where they can be permuted."""
        if self.rows.count0 + self.rows.count1 > outputs.PERMUTED_ROWS:
            return outputs.equal_outputs_limit(self.rows, self.scores)
        found = self.sample(None, (), seed)
        return outputs.equal_outputs_test(found.rows, found.scores, seed=seed)

    def without_equals(self, names: Collection[str]) -> WithoutEquals:
        """As of `Pair`."""
        found = []
        for feature in self.features:
            audited, reference = self.rows.counts(feature.codes, len(feature.labels))
            if feature.name in names and ((audited > 0) & (reference == 0)).any():
                found.append(feature.name)
        checks = self.third.checks
        return WithoutEquals(checks.alone / self.rows.weight0, checks.alone_people, found)

    def balance(self, membership: Membership, expected: Polynomial) -> Balance:
        """As of `Pair`; where it is a constant, what is expected of the outcome is in balance."""
        noise = fitting_noise(self.rows, membership)
        every = (*self._level_balance(noise), *self._number_balance(noise))
        return balance_of(tuple(one for one in every if one is not None), membership, self._calibration())

    def _density_ratio(self, rows: SummedRows, ratio: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Return r at audited and at reference rows from e^ℓ, or from the r of a fitted model."""
        return known_density_ratio(rows, ratio) if self.plan.fitted is None else (ratio, ratio)

    def _level_balance(self, noise: float) -> list[Mismatch | None]:
        fitted = self.summed.fitted
        ratio = self.rows.exponential(self.summed.log_odds)[0] if fitted is None else fitted.density_ratio
        densities = self._density_ratio(self.rows, ratio)
        found = []
        for levels, feature in sorted(zip(self.plan.levels, self.features, strict=True), key=lambda one: one[0].name):
            if levels.in_membership:
                for name, level in _balanced_levels(levels, self.rows, feature):
                    x = self.rows.lifted(np.eye(len(levels.labels))[level], feature.codes)
                    found.append(mismatch(self.rows, name, x, densities, noise))
        return found

    def _number_balance(self, noise: float) -> list[Mismatch | None]:
        if self._third is None:
            return []
        found = []
        for names, sums in zip(self._third.plan.balanced, self._third.checks.balance, strict=True):
            rows, x, ratio = balance_rows(sums)
            first = "score" if names[0] == EXPECTED else names[0]
            name = first if len(names) == 1 else f"{names[0]}²" if names[0] == names[1] else "·".join(names)
            found.append(mismatch(rows, name, x, self._density_ratio(rows, ratio), noise))
        return found

    def _calibration(self) -> tuple[float, float]:
        """Return intercept and slope, from the weight and the mean of ℓ in each fine bin."""
        sums = self.ratios
        weights = np.concatenate([sums[:, 2], sums[:, 3]])
        used = weights > 0
        ell = np.concatenate([sums[:, 4], sums[:, 5]])[used] / weights[used]
        audited = np.arange(len(weights))[used] < len(sums)
        return calibrated(audited, weights[used], ell)

    def joint(self, features: Sequence[Feature]) -> tuple[Partition, Integers] | None:
        """As of `Pair`."""
        if self.summed.joint is None or self.summed.joint_codes is None:
            return None
        names = [levels.name for levels in self.plan.levels]
        columns = [feature.codes.place[self.summed.joint_codes[:, names.index(feature.name)]] for feature in features]
        cell, codes = compact(np.column_stack(columns))
        return self.summed.joint.joined(cell), codes

    def cell_sums(self, log_odds: Polynomial, feature: Feature) -> CellSums:
        """As of `Pair`."""
        scores = self.scores.columns if self.plan.outcomes == 1 else self.scores.columns[1:]
        pivot = self.plan.pivot if self.plan.outcomes == 1 else np.delete(self.plan.pivot, 1)
        columns = [one - float(at) for one, at in zip((log_odds, *scores), pivot, strict=True)]
        weight = self.rows.weight0
        sums = np.column_stack([weight * self.rows.sums0(feature.codes, column) for column in columns])
        return CellSums(pivot, weight * self.rows.sums0(feature.codes), sums)

    def sample(self, log_odds: Any, features: Sequence[Feature], seed: int) -> PairSample:
        """As of `Pair`; which rows are in the sample depends on what they hold, not on their order."""
        frame = self.sample_rows.frame
        people = frame[PEOPLE].to_numpy()
        if int(people.sum()) <= SAMPLED_ROWS:
            index = np.repeat(np.arange(frame.height), people)
        else:
            generator = np.random.default_rng(seed)
            index = np.sort(generator.choice(frame.height, SAMPLED_ROWS, p=people / people.sum()))
        rows = Rows.of((frame[GROUP] == self.plan.audited).to_numpy()[index], frame[WEIGHT].to_numpy()[index])
        levels = {one.name: one for one in self.plan.levels}
        codes = tuple(
            feature.codes.place[levels[feature.name].codes(frame[feature.name])][index] for feature in features
        )
        return PairSample(rows, frame[LOG_ODDS].to_numpy()[index], self._sampled_scores()[index], codes)

    def learning(self, membership: Membership, features: Sequence[Feature], seed: int) -> Learning:
        """As of `Pair`: some of the rows that the membership model was fitted on, with a cross-fit of their own."""
        if self.learner is None:
            raise RuntimeError("nothing is learnt where the membership is known")
        return self.learner.learning(self.plan, membership.name, features, seed)

    def expectation(self, membership: Membership | None, seed: int) -> Polynomial:
        """As of `Pair`."""
        if self.summed.fitted is None:
            return self.rows.constant(self.rows.mean0(self.outcome))
        return self.outcome - self.summed.fitted.residual

    def _sampled_scores(self) -> Floats:
        frame = self.sample_rows.frame
        return np.column_stack([frame[f"{SCORE}{y}"].to_numpy() for y in range(self.plan.outcomes)])

    def _atoms(self) -> tuple[Floats, Floats, Floats]:
        """Return weight, log-odds and scores of the audited people: distinct rows if all are known, else fine bins."""
        if not self.sample_rows.is_complete and self.found.mixed is not None:
            sums = self.found.mixed.sums[self.found.mixed.sums[:, 0] > 0]
            weight = sums[:, 0]
            return weight, sums[:, 1] / weight, sums[:, 2:] / weight[:, None]
        frame, scores = self.sample_rows.frame, self._sampled_scores()
        mine = (frame[GROUP] == self.plan.audited).to_numpy()
        weight = (frame[PEOPLE] * frame[WEIGHT]).to_numpy()
        return weight[mine], frame[LOG_ODDS].to_numpy()[mine], scores[mine]

    @cached_property
    def inputs(self) -> Inputs:
        """The audited people as a finite world, as in memory."""
        weight, log_odds, scores = self._atoms()
        channel = np.column_stack([1.0 - scores, scores]) if self.plan.outcomes == 1 else scores
        y0, y1 = self.rows.means0(self.scores), self.rows.means1(self.scores)
        if self.plan.outcomes == 1:
            y0, y1 = np.array([1.0 - y0[0], y0[0]]), np.array([1.0 - y1[0], y1[0]])
        p0 = weight / weight.sum()
        p1 = p0 * np.exp(-(log_odds - log_odds.min()))
        return Inputs(p0, p1 / p1.sum(), channel, y0, y1)

    def _tilt(self) -> Floats | None:
        try:
            return projection(self.inputs.p0, self.inputs.channel, self.inputs.y1)[1]
        except SupportError:
            return None

    def people(
        self, groups: tuple[str, str], correction: CorrectionFunction, log_odds: Any, log_ratio: Any
    ) -> SummedPeople:
        """As of `Pair`."""
        extremes = self.third.checks.extremes
        return SummedPeople(
            tuple(levels.feature(None) for levels in self.plan.levels),
            correction,
            extremes,
            {name: self._people_at(extreme.codes) for name, extreme in extremes.items()},
            self.third.bins,
            Later(partial(_both_ways, self.inputs, self.plan.favourable)),
        )

    def _people_at(self, codes: Sequence[int]) -> int:
        """Return how many audited people have these features; 0 where joint cells are too many to know."""
        found = self.summed
        if found.joint is None or found.joint_codes is None:
            return 0
        return int(found.joint.audited.counts[(found.joint_codes == np.array(codes)).all(axis=1)].sum())


class _Repeated:
    """Values that so many people have, in order, seen as one long array by its quantiles."""

    def __init__(self, people: Floats, values: Floats) -> None:
        order = np.argsort(values, kind="stable")
        self.values, self.total = values[order], np.cumsum(people[order])

    def quantiles(self, steps: Floats) -> Floats:
        """Return the quantiles as numpy makes them, between the two nearest values."""
        at = steps * (self.total[-1] - 1)
        low, high = (self.values[np.searchsorted(self.total, side(at), side="right")] for side in (np.floor, np.ceil))
        return np.asarray(low + (high - low) * (at - np.floor(at)))


def _balanced_levels(levels: Levels, rows: SummedRows, feature: Feature) -> list[tuple[str, int]]:
    """Return the levels whose frequency is balanced: of categories all but rare ones, of numbers that they miss."""
    if levels.has_numbers:
        missing = len(levels.labels) - 1
        return [(f"{levels.name} missing", missing)] if levels.labels[-1] == MISSING else []
    counts = sum(rows.counts(feature.codes, len(levels.labels)))
    common = np.flatnonzero(counts >= 0.01 * (rows.count0 + rows.count1)).tolist()
    return [(f"{levels.name} = {levels.labels[level]}", level) for level in common]


@dataclass(frozen=True, slots=True, eq=False)
class SummedPeople:
    """What can be said of kinds of people without their rows.

    Attributes
    ----------
    extremes, crowds
        Where f~ is largest, smallest and nearest to 0, and how many audited people have the same features.
    tallies, ways
        What figures are made of: bins, and both ways of the paper.
    """

    features: tuple[Feature, ...]
    correction: CorrectionFunction
    extremes: dict[str, Extreme]
    crowds: dict[str, int]
    tallies: Later[Tallies]
    ways: Later[dict[str, Any]]

    def profile(self, feature: str) -> pl.DataFrame:
        """As of `Comparison`; quantiles are good to a fiftieth."""
        found = _named(self.features, feature)
        tally = self.tallies().profiles[feature]
        records = [
            {"value": label} | _profile_of(tally, code, self.correction) for code, label in enumerate(found.labels)
        ]
        return pl.DataFrame(records, schema=PROFILE_SCHEMA)

    def distribution(self, feature: str, bins: int) -> NoReturn:
        """Raise: bins of f~ between its extremes would take another pass."""
        raise needs_rows("distribution", "look at bins()['profiles'], which has 80 bins from -4 to 4")

    def bins(self, order: Sequence[str]) -> dict[str, Any]:
        """As of `Comparison`."""
        features = sorted(self.features, key=lambda feature: order.index(feature.name))
        return described(self.tallies(), self.correction, features) | self.ways()

    def prototypes(self, suppress: bool) -> dict[str, dict[str, Any]]:
        """As of `Comparison`; withheld where the joint cells of all features are not known."""
        return {
            name: prototype(self.features, extreme.codes, self.crowds[name], extreme.correction, suppress)
            for name, extreme in self.extremes.items()
        }

    def path(self, weights: Sequence[Any], divergence: str) -> list[PathPoint]:
        """Raise: a path has an entry for each row."""
        raise needs_rows("path", "bins()['path'] has both ways of the paper")

    def project(self) -> Projection:
        """Raise: a projection has an entry for each row."""
        raise needs_rows("project", "bins()['least_change'] has its cost")


def _both_ways(inputs: Inputs, favourable: int) -> dict[str, Any]:
    return summary_of(ways(inputs), inputs.channel[:, favourable % inputs.channel.shape[1]])


def needs_rows(name: str, instead: str) -> DataError:
    """Return the error for what sums do not tell."""
    return DataError(
        f"`{name}` must have rows in memory, got a comparison made of sums.",
        f"{instead}; or audit a sample of the rows, for example tl.audit(data.collect().sample(1_000_000), …).",
    )


def _named(features: Sequence[Feature], name: str) -> Feature:
    for feature in features:
        if feature.name == name:
            return feature
    names = [feature.name for feature in features]
    raise DataError(f"`feature` must be one of the audit's features, got {name!r}.", f"they are {names}.")


def _profile_of(tally: ValueTally, code: int, correction: CorrectionFunction) -> dict[str, Any]:
    """Return what a profile says of one value."""
    counts = tally.people.counts
    audited, reference = (None if withheld(one)[code] else int(one[code]) for one in counts)
    record: dict[str, Any] = {"n": audited, "n_reference": reference}
    if not audited:
        return record
    means = tally.sums.means[code] + tally.sums.pivot
    scores = means[1:] if len(means) == 2 else np.concatenate([[1.0 - means[1:].sum()], means[1:]])[None, :]
    record["correction"] = float(np.asarray(correction(means[:1], scores))[0])
    record["score"] = float(tally.score[code] / tally.people.weights[0][code])
    if len(tally.fine):
        for q, end, is_shown in zip(QUANTILES, *quantiles_of(tally.fine[-1][code], tally.crowd[-1][code]), strict=True):
            record[f"correction_{round(100 * q)}"] = end if is_shown else None
    return record
