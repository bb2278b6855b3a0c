"""Monitoring of growing data: a state file with the sums of all batches, and intervals valid at all looks together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import polars as pl

from tiltlens._analysis.evidence import Settings
from tiltlens._analysis.periods import Measured, track
from tiltlens._estimators.estimate import Estimate, Normal, Sequence
from tiltlens._formats import FieldTable
from tiltlens._results.codec import check_target, from_plain, to_plain, write_json
from tiltlens._results.outputs import Provenance
from tiltlens._rows.roles import SCORE, ColumnRoles
from tiltlens._rows.survey import Survey
from tiltlens.errors import DataError, Input, TiltlensError, quoted, remember
from tiltlens.paper.checks import Floats

LOOKS_AHEAD = 5.0  # times the first look's size: where a confidence sequence is tightest; of little effect

SCHEMA = "tiltlens/monitor/1"
ASKED = ("scores", "model", "sample_weight", "outcome", "score_type", "threshold", "metric", "where")
SHAPE = (3, 6)  # outcomes, and sums per group and outcome
LOOKS: Mapping[str, type[pl.DataType]] = {
    **{"look": pl.Int64, "audited": pl.String},
    **dict.fromkeys(("gap", "gap_low", "gap_high", "sequence_low", "sequence_high"), pl.Float64),
}


@dataclass(frozen=True, slots=True, eq=False)
class Monitor(FieldTable):
    """Results of all looks at growing data so far.

    Attributes
    ----------
    looks
        One row per look and audited group, over all batches until then: gap, its confidence interval for a single look,
        and the confidence sequence, which is valid at all looks together. Numbers of people are omitted, because two
        reports would reveal the size of a small group in one batch.
    sequences
        By audited group, at the last look: "gap", "impact_ratio", "fpr_difference" and "fnr_difference", as far as they
        are defined, with confidence sequences.
    """

    looks: Annotated[pl.DataFrame, LOOKS]
    sequences: dict[str, dict[str, Estimate]]


@dataclass(frozen=True, slots=True, eq=False)
class MonitorState:
    """The state between looks: the question, the batches counted so far, and their sums."""

    schema: str
    question: dict[str, str]  # the arguments that all batches must share
    batches: tuple[str, ...]  # their fingerprints
    sums: dict[str, list[list[float]]]  # for each group and observed outcome: people, Σw, Σw², ΣwW, Σw²W and Σw²W²
    starts: dict[str, dict[str, float]]  # n₀ of each confidence sequence, by audited group and quantity
    looks: Annotated[pl.DataFrame, LOOKS]  # the table of `Monitor`


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch to count: its fingerprint, its question, the sums of its groups, and how to measure its scores."""

    fingerprint: str
    question: dict[str, str]
    totals: Mapping[str, Floats]
    reference: str
    measured: Measured

    @classmethod
    def of(cls, roles: ColumnRoles, survey: Survey, origin: Provenance, reference: str) -> Batch:
        """Return the batch of a survey; raise for clusters or group probabilities, whose sums cannot be added up."""
        if roles.soft or roles.clusters is not None:
            what = "clusters" if roles.clusters is not None else "group probabilities"
            raise DataError(f"`monitor` must be without {what}, got both.", "leave one of them out.")
        if not all(np.isfinite(sums).all() for sums in survey.totals.values()):
            raise DataError("The weights or scores are too large to be added up over batches.", "rescale them.")
        question = {name: str(origin.question.get(name)) for name in ASKED}
        favourable = survey.outcome(roles.favourable)
        own = {"group": roles.name, "reference": reference, "favourable": favourable}
        is_single = f"{SCORE}1" not in survey.sample.frame.columns
        measured = Measured(
            roles.score_type == "amount", is_single and survey.favourable == 0, has_metric=roles.metric is not None
        )
        key = ": ".join([origin.data_sha256, *filter(None, [origin.stated.get("batch")])])
        return cls(key, question | own | {"features": ", ".join(origin.features)}, survey.totals, reference, measured)


@dataclass(frozen=True, slots=True)
class StateFile:
    """A state file as it was read; `content` is None if there is no file yet."""

    path: Path
    content: bytes | None
    state: MonitorState

    @classmethod
    def read(cls, path: str | Path) -> StateFile:
        """Return the state in a file, or a new one; raise if the file is invalid or cannot be written."""
        file = Path(path).absolute()
        if str(path) == "-" or (file.exists() and not file.is_file()):
            raise DataError(f"`monitor` must be a file, got {quoted(str(path))}.", "name a file such as state.json.")
        check_target(str(file))
        if not file.exists():
            return cls(file, None, MonitorState(SCHEMA, {}, (), {}, {}, pl.DataFrame(schema=LOOKS)))
        content = file.read_bytes()
        try:
            state = from_plain(MonitorState, json.loads(content))
            if state.schema != SCHEMA or any(np.shape(sums) != SHAPE for sums in state.sums.values()):
                raise DataError(f"its schema is {quoted(state.schema)}, or sums are missing")
        except (TiltlensError, ValueError, RecursionError) as error:
            reason = str(error).partition("\n")[0].removesuffix(".")
            raise DataError(
                f"`monitor` must be a state file of the schema {SCHEMA!r}, got {quoted(str(path))}: {reason}.",
                "name a new file to begin with; earlier batches are then not counted.",
            ) from None
        remember(Input.file(file, SCHEMA))
        return cls(file, content, state)

    def look(self, batch: Batch, settings: Settings) -> Look:
        """Return the look that adds a batch, after a check that the batch is new; nothing is written yet."""
        batch.question["confidence"] = f"{settings.confidence:g}"
        check_batch(self.state, batch)
        return Look(self, *add_look(self.state, batch, settings))

    def replace(self, state: MonitorState) -> None:
        """Write the next state atomically, unless another run has changed the file meanwhile."""
        if (self.path.read_bytes() if self.path.exists() else None) != self.content:
            raise DataError(
                f"`monitor` cannot be written because another run has changed {quoted(str(self.path))}.",
                "run this audit again: its batch is not counted yet.",
            )
        write_json(to_plain(state), self.path)


class Look(NamedTuple):
    """A look whose batch is not counted yet: the file, its next state, and the results."""

    file: StateFile
    state: MonitorState
    monitor: Monitor


def check_batch(state: MonitorState, batch: Batch) -> None:
    """Raise if a batch was already counted, or if its arguments differ from earlier ones."""
    for name in sorted({*state.question, *batch.question}) if state.batches else ():
        before, now = (question.get(name, "") for question in (state.question, batch.question))
        if before != now:
            raise DataError(
                f"`{name}` must be that of earlier looks, {quoted(before)}, got {quoted(now)}.",
                "audit every batch with the same arguments; for another audit name another state file (monitor).",
            )
    if batch.fingerprint in state.batches:
        look = state.batches.index(batch.fingerprint) + 1
        raise DataError(
            f"`data` must be a new batch, got rows that were already counted at look {look}.",
            "pass the rows that came since. If these are other people with the same values, name the batch in "
            "`provenance`.",
        )


def add_look(state: MonitorState, batch: Batch, settings: Settings) -> tuple[MonitorState, Monitor]:
    """Return the state with a batch added, and the results for all audited groups."""
    none = np.zeros(SHAPE)
    names = dict.fromkeys([*state.sums, *batch.totals])
    totals = {name: np.array(state.sums.get(name, none)) + batch.totals.get(name, none) for name in names}
    tracked = {
        name: track(sums, totals[batch.reference], batch.measured)
        for name, sums in totals.items()
        if name != batch.reference
    }
    tracked = {name: quantities for name, quantities in tracked.items() if quantities}
    every = settings.for_all(max(len(tracked), 1)).confidence  # gaps of all audited groups are covered simultaneously
    starts, sequences, records = {}, {}, []
    for name, quantities in tracked.items():
        fresh = {key: LOOKS_AHEAD * item.size for key, item in quantities.items()}
        start = starts[name] = fresh | state.starts.get(name, {})  # n₀ is fixed at the first look of a quantity
        sequences[name] = {
            key: Sequence(item.value, item.se, item.size / start[key], item.is_log).estimate(
                every if key == "gap" else settings.confidence
            )
            for key, item in quantities.items()
        }
        fixed, gap = Normal(*quantities["gap"][:2]).estimate(every), sequences[name]["gap"]
        row = (len(state.batches) + 1, name, gap.value, fixed.low, fixed.high, gap.low, gap.high)
        records.append(dict(zip(LOOKS, row, strict=True)))
    looks = pl.concat([state.looks, pl.DataFrame(records, LOOKS)])
    sums = {name: part.tolist() for name, part in totals.items()}
    batches = (*state.batches, batch.fingerprint)
    return MonitorState(SCHEMA, batch.question, batches, sums, starts, looks), Monitor(looks, sequences)
