"""`tiltlens repair`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import click

from tiltlens.commands.audit import audit_files, rows_of
from tiltlens.commands.options import (
    AUDIT,
    DATA,
    NOT_OF_ACTIONS,
    READING,
    Options,
    Spec,
    Value,
    command,
    refuse_options,
    with_options,
    without,
)
from tiltlens.commands.targets import announce, check_targets, deliver, progress_shown, screen
from tiltlens.errors import TiltlensError

if TYPE_CHECKING:
    from tiltlens.repair.evaluation import Evaluation
    from tiltlens.repair.free_price import DiscriminationFreePrice
    from tiltlens.repair.score_tilt import ScoreTilt
    from tiltlens.sources.text_columns import Source

FITTED_WITH = {  # the keywords of `Audit.repair`
    "metric": Spec(
        "Outcome",
        None,
        "Quantity to equalise; all but mean_score need --outcome.",
        type=click.Choice(["mean_score", "fpr", "fnr", "equalized_odds"]),
        default="mean_score",
    ),
    "max_gap": Spec("Outcome", "SIZE", "Largest gap that may remain.", default=0.0),
    "threshold": Spec("Outcome", "SCORE", "Adjust decisions instead of scores: 1 from this score on.", type=float),
    "use_group": Spec(
        "Groups", None, "Adjust scores by the group of every new row, which may be regulated.", is_flag=True
    ),
}
OWN = FITTED_WITH | {
    "score_type": AUDIT["score_type"],
    "outcome": Spec("Outcome", "COLUMN", "Observed outcome, 0 or 1; adds error rates. For amounts, the observed cost."),
    "held_out": Spec(
        "Data", "FILE", "Rows to evaluate the adjustment on, not used in the fit. Repeat for more.", multiple=True
    ),
    "apply": Spec("Data", "FILE", "New rows with scores to adjust; needs --out. Repeat for more.", multiple=True),
    "out": Spec("Output", "FILE", "Write the new rows with their adjusted scores: .csv or .parquet."),
    "save": Spec("Output", "FILE.json", "Write the adjustment."),
    "json": Spec("Output", "FILE", "Write the evaluation as JSON; '-' is standard output."),
    "report": Spec("Output", "FILE.html", "Write the evaluation as an HTML page."),
}
NOT_WITH_SAVED = (*FITTED_WITH, "reference", "audited", "features", "exclude", "random_state", "categorical", "blocks")
NOT_WITH_SAVED += ("sample_rows", "save", "score_type")


@command(
    "repair",
    "loans.csv --group sex --scores score --held-out test.csv --save repair.json",
    "repair.json --scores score --apply new.csv --out adjusted.csv",
)
@DATA
@with_options(without(AUDIT, (*NOT_OF_ACTIONS, "model")) | OWN)
def repair_command(
    data: tuple[str, ...], held_out: tuple[str, ...], apply: tuple[str, ...], out: str | None, **options: Value
) -> None:
    """Find the smallest change of scores that closes a gap.

    For amounts with observed costs, it finds the discrimination-free price.

    DATA: the audited rows, as for `tiltlens audit`; or a file that --save wrote. With --held-out (other rows with the
    same columns), it evaluates the adjustment, without the group and with it. If there are several classes, it
    evaluates the one that --favourable names.
    """
    from tiltlens.render.page import write_evaluations
    from tiltlens.render.terminal import print_evaluations, print_repair

    json, report, save = (options.pop(name) for name in ("json", "report", "save"))
    _check_options(held_out, apply, out, {"json": json, "report": report})
    check_targets({"json": json, "report": report, "save": save, "out": out}, data, held_out, apply)
    if len(data) == 1 and data[0].lower().endswith(".json"):
        tilt, other = _read_saved(data[0], options, has_rows=bool(held_out or apply)), None
    else:
        tilt, other = _fit(data, json, bool(held_out), options)
    evaluations = _evaluate(tilt, other, held_out, options) if held_out else None
    if apply and out is not None:
        _apply(tilt, apply, out, options)
        announce("adjusted table", out)
    if save is not None:
        tilt.to_json(save)
        announce("adjustment", save)
    if evaluations is None:
        print_repair(tilt, screen(), " & ".join(options["group"]) or "group")
    else:
        outputs = {"json": json, "report": report}
        deliver(outputs, evaluations, print_evaluations, json=_write_json, report=write_evaluations)


def _write_json(evaluations: list[Evaluation], target: str) -> None:
    from tiltlens.repair.evaluation import evaluations_summary
    from tiltlens.results.codec import write_json

    write_json(evaluations_summary(evaluations), target)


def _check_options(
    held_out: tuple[str, ...], apply: tuple[str, ...], out: str | None, evaluated: dict[str, str | None]
) -> None:
    """Raise where options that need each other are not given together."""
    if bool(apply) != (out is not None):
        given, missing = ("--apply", "--out") if apply else ("--out", "--apply")
        raise TiltlensError(f"{given} needs {missing}.", "for example --apply new.csv --out adjusted.csv.")
    if out is not None and not out.lower().endswith((".csv", ".parquet")):
        raise TiltlensError(f"--out must end in .csv or .parquet, got {out!r}.", "for example adjusted.csv.")
    for name, target in evaluated.items():
        if target is not None and not held_out:
            raise TiltlensError(f"--{name} needs --held-out.", "--save writes the adjustment without it.")


def _read_saved(path: str, options: Options, has_rows: bool) -> ScoreTilt | DiscriminationFreePrice:
    """Return a saved repair; options of the fit are refused."""
    from tiltlens.repair.saved_adjustment import read_repair
    from tiltlens.repair.score_tilt import ScoreTilt

    refuse_options(NOT_WITH_SAVED, "with a saved adjustment", "drop it, or fit a new one.")
    tilt, given = read_repair(path, options["trusted"]), len(options["scores"])
    wanted = tilt.classes if isinstance(tilt, ScoreTilt) and tilt.classes > 2 else 1
    if has_rows and given != wanted:
        needs = "the column to adjust" if wanted == 1 else f"{wanted} columns, one for each class"
        raise TiltlensError(f"--scores must name {needs}, got {given or 'none'}.", "for example --scores score.")
    return tilt


def _fit(
    data: tuple[str, ...], json: str | None, is_evaluated: bool, options: Options
) -> tuple[ScoreTilt | DiscriminationFreePrice, ScoreTilt | None]:
    """Return the repair; for an evaluation of scores also the same one with, or without, the group."""
    from tiltlens.repair.score_tilt import ScoreTilt

    if not options["scores"]:
        raise TiltlensError("`tiltlens repair` needs --scores.", "name the column of probabilities to adjust.")
    settings = {name: options[name] for name in FITTED_WITH}
    with progress_shown(json) as progress:
        audit = audit_files(data, progress, folds=0, **{k: v for k, v in options.items() if k not in FITTED_WITH})
    tilt = audit.repair(**settings)
    if not is_evaluated or not isinstance(tilt, ScoreTilt):
        return tilt, None
    use_group = not settings["use_group"]
    try:
        other = audit.repair(**settings | {"use_group": use_group})
        return tilt, other if isinstance(other, ScoreTilt) else None
    except TiltlensError as error:
        way = "with" if use_group else "without"
        click.echo(f"Note: no adjustment {way} the group to compare with. {str(error).splitlines()[0]}", err=True)
        return tilt, None


def _evaluate(
    tilt: ScoreTilt | DiscriminationFreePrice, other: ScoreTilt | None, held_out: tuple[str, ...], options: Options
) -> list[Evaluation]:
    """Return the evaluations of the audited groups on held-out rows."""
    from tiltlens.errors import check_columns
    from tiltlens.repair.new_rows import meets
    from tiltlens.repair.score_tilt import ScoreTilt

    table = rows_of(_read(held_out, options))
    check_columns("where", options["where"], table.columns)
    check_columns("group", _group(options), table.columns)
    rows = table.filter(meets(table, options["where"]))
    columns = _columns(options["scores"]), _columns(options["group"])
    shared = {name: options[name] for name in ("outcome", "confidence", "sample_weight", "clusters")}
    if not isinstance(tilt, ScoreTilt):
        return [*tilt.evaluate_groups(rows, *columns, **shared).values()]
    score_class = _class_of(options["scores"], options["favourable"])
    evaluations = tilt.evaluate_groups(rows, *columns, score_class=score_class, compare_with=other, **shared)
    return [*evaluations.values()]


def _columns(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


def _class_of(scores: tuple[str, ...], favourable: str) -> int | None:
    """Return the class whose score is evaluated; None where there is one column of scores."""
    if len(scores) == 1:
        return None
    if favourable not in scores:
        raise TiltlensError(
            f"--favourable must name the class to evaluate, got {favourable!r}.", f"choose one of {', '.join(scores)}."
        )
    return scores.index(favourable)


def _apply(tilt: ScoreTilt | DiscriminationFreePrice, new: tuple[str, ...], out: str, options: Options) -> None:
    """Write new rows, which may be larger than memory, with a column of adjusted scores, decisions or prices."""
    from tiltlens.repair.apply import apply_repair
    from tiltlens.repair.score_tilt import ScoreTilt

    group = _group(options) if isinstance(tilt, ScoreTilt) and tilt.use_group else None
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        apply_repair(tilt, _read(new, options), _columns(options["scores"]), group, out)
    for note in notes:
        click.echo(f"Note: {note.message}.", err=True)


def _read(files: tuple[str, ...], options: Options) -> Source:
    """Return other files than the audited ones as a source; a query is for the audited rows alone."""
    from tiltlens.sources.text_columns import read

    return read(list(files), **{name: options[name] for name in READING if name != "query"})


def _group(options: Options) -> list[str]:
    if not options["group"]:
        raise TiltlensError("`tiltlens repair` needs --group here.", "for example --group sex.")
    return list(options["group"])
