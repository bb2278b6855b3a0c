"""`tiltlens alternatives`."""

from __future__ import annotations

from tiltlens.commands.audit import audit_files
from tiltlens.commands.options import (
    AUDIT,
    DATA,
    NOT_OF_ACTIONS,
    WRITING,
    Spec,
    Value,
    command,
    only,
    with_options,
    without,
)
from tiltlens.commands.targets import check_targets, deliver, progress_shown
from tiltlens.errors import TiltlensError

OWN = {
    "outcome": Spec("Outcome", "COLUMN", "Observed outcome, 0 or 1. Required."),
    "threshold": Spec(
        "Outcome",
        "SCORE",
        "Score from which the audited decision is 1. It also sets the cost of errors: at 0.2, a missed outcome costs "
        "four times a false alarm.",
        default=0.5,
    ),
    "tolerance": Spec("Inference", "LOSS", "Accuracy loss treated as negligible.", default=0.005),
}


@command(
    "alternatives",
    "loans.csv --group sex --scores score --outcome repaid",
    "loans.csv --group sex --model credit.skops --outcome repaid --report lda.html",
)
@DATA
@with_options(without(AUDIT, NOT_OF_ACTIONS) | OWN | only(WRITING, "json", "report"))
def alternatives_command(data: tuple[str, ...], tolerance: float, threshold: float, **options: Value) -> None:
    """Search for less discriminatory alternatives.

    DATA, --group, --scores, --outcome and other options as in `tiltlens audit`; the outcome is required. The search
    fits rules of the same features on some rows and compares them with the audited decisions on other rows. With
    --model, it also neutralises or coarsens each feature in turn.
    """
    from tiltlens.render.page import write_alternatives
    from tiltlens.render.terminal import print_alternatives
    from tiltlens.repair.alternatives import AlternativesByGroup

    outputs = {name: options.pop(name) for name in ("json", "report")}
    check_targets(outputs, data, options["model"])
    for names in (("scores", "model"), ("outcome",)):
        if not any(options[name] for name in names):
            missing = " or ".join(f"--{name}" for name in names)
            raise TiltlensError(f"`tiltlens alternatives` needs {missing}.", f"add --{names[0]} COLUMN.")
    with progress_shown(outputs["json"]) as progress:
        audit = audit_files(data, progress, folds=0, **options)
    by_group = {name: c.alternatives(tolerance, threshold) for name, c in audit.comparisons.items()}
    alternatives = AlternativesByGroup(by_group, audit.group)
    deliver(outputs, alternatives, print_alternatives, report=write_alternatives)
