"""`tiltlens compare`."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from tiltlens.commands.audit import audit_files
from tiltlens.commands.options import (
    AUDIT,
    DATA,
    GATED,
    WRITING,
    Spec,
    Value,
    command,
    only,
    refuse_options,
    with_options,
    without,
)
from tiltlens.commands.targets import GATE_FAILED, check_gated, check_targets, deliver, report_gates, write_junit
from tiltlens.errors import TiltlensError

if TYPE_CHECKING:
    from tiltlens.results.change import Change

OF_AUDITS = without(AUDIT, ("model", "trusted", "periods", "monitor"))
OWN = {
    "scores": Spec("Outcome", "COLUMN", "Scores in DATA: first the old model's, then the new one's.", multiple=True),
    "outcome": Spec("Outcome", "COLUMN", "Observed outcome, 0 or 1; adds error rates."),
    "fail_if": Spec(
        "Output",
        "GATE",
        'Exit with code 1 if the condition holds, e.g. "gap_change.low>0.01". Repeat for more.',
        multiple=True,
    ),
}


@command(
    "compare",
    "loans.csv --group sex --scores old_score --scores new_score",
    'march.json april.json --fail-if "gap_change.low>0.01"',
    exit_codes=GATED,
)
@DATA
@with_options(OF_AUDITS | only(WRITING, "json", "report", "junit") | OWN)
def compare_command(data: tuple[str, ...], fail_if: tuple[str, ...], **options: Value) -> None:
    """Compare two models on the same rows, or two saved audits.

    DATA with --scores OLD --scores NEW, --group and other options of `tiltlens audit`: the command audits both models
    on the same rows, so intervals are paired. Or DATA are two files that `tiltlens audit --json` wrote from different
    rows, such as two periods, the old one first: intervals are those of independent samples.
    """
    from tiltlens.gates import OF_CHANGES, gate
    from tiltlens.render.page import write_change
    from tiltlens.render.terminal import print_change

    gates = [gate(condition, OF_CHANGES) for condition in fail_if]
    outputs = {name: options.pop(name) for name in ("json", "report", "junit")}
    check_targets(outputs, data)
    check_gated(outputs["junit"], gates)
    change = _compare(data, **options)
    judgements = [judgement for condition in gates for judgement in condition.judge(change)]
    deliver(outputs, change, print_change, report=write_change, junit=partial(write_junit, judgements))
    if report_gates(gates, judgements, change):
        sys.exit(GATE_FAILED)


def _compare(data: tuple[str, ...], scores: tuple[str, ...], **options: Value) -> Change:
    """Return the change between two models on the same rows, or between two saved audits."""
    from tiltlens.results.audit_comparison import compare as compare_audits
    from tiltlens.results.saved_audits import saved_change

    if scores:
        if len(scores) != 2 or scores[0] == scores[1]:
            raise TiltlensError(
                f"`tiltlens compare` needs two different --scores, got {' and '.join(map(repr, scores))}.",
                "for example --scores old_score --scores new_score.",
            )
        excluded = options.pop("exclude") or ()
        old, new = (
            audit_files(data, scores=(score,), exclude=(*excluded, other), **options)
            for score, other in (scores, scores[::-1])
        )
        return compare_audits(old, new)
    if len(data) != 2:
        raise TiltlensError(
            f"`tiltlens compare` needs two saved audits, or data with two --scores, got {len(data)} files.",
            "for example old.json new.json.",
        )
    refuse_options(options, "with two saved audits", "drop it, or audit the data again with it.")
    return saved_change(*data)
