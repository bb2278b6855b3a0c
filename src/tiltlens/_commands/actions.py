"""Commands based on models and audits: `tiltlens repair`, `alternatives`, `compare` and `rule`."""

from __future__ import annotations

import sys
import warnings
from functools import partial

import click

from tiltlens._commands.audit import audit_files, rows_of
from tiltlens._commands.options import READING, TO_FIT, Options, Value, refuse_options
from tiltlens._commands.outputs import (
    GATE_FAILED,
    announce,
    check_gated,
    check_targets,
    deliver,
    progress_shown,
    report_gates,
    screen,
    write_junit,
)
from tiltlens._gates import OF_CHANGES, gate
from tiltlens._render.page import write_report
from tiltlens._render.terminal import print_result
from tiltlens._repair.alternatives import AlternativesByGroup
from tiltlens._repair.evaluation import Evaluation, evaluations_summary
from tiltlens._repair.free_price import DiscriminationFreePrice
from tiltlens._repair.new_rows import apply_repair
from tiltlens._repair.rows import meets
from tiltlens._repair.score_tilt import ScoreTilt
from tiltlens._repair.solve import read_repair
from tiltlens._results.audit_comparison import compare as compare_audits
from tiltlens._results.change import Change
from tiltlens._results.codec import write_json
from tiltlens._results.saved_audits import saved_change
from tiltlens._rules.tables import rule_tables
from tiltlens._sources.text_columns import Source, read
from tiltlens.errors import TiltlensError, check_columns

NOT_WITH_SAVED = (*TO_FIT, "reference", "audited", "features", "exclude", "random_state", "categorical", "blocks")
NOT_WITH_SAVED += ("sample_rows", "save", "score_type")


def repair_command(
    data: tuple[str, ...], held_out: tuple[str, ...], apply: tuple[str, ...], out: str | None, **options: Value
) -> None:
    """Find the smallest change in scores that closes a gap."""
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
        print_result(tilt, screen(), group=" & ".join(options["group"]) or "group")
    else:
        outputs = {"json": json, "report": report}
        deliver(outputs, evaluations, print_result, json=_write_json, report=write_report)


def _write_json(evaluations: list[Evaluation], target: str) -> None:
    write_json(evaluations_summary(evaluations), target)


def _check_options(
    held_out: tuple[str, ...], apply: tuple[str, ...], out: str | None, evaluated: dict[str, str | None]
) -> None:
    """Raise if an option is given without another that it needs."""
    if bool(apply) != (out is not None):
        given, missing = ("--apply", "--out") if apply else ("--out", "--apply")
        raise TiltlensError(f"{given} needs {missing}.", "for example --apply new.csv --out adjusted.csv.")
    if out is not None and not out.lower().endswith((".csv", ".parquet")):
        raise TiltlensError(f"--out must end in .csv or .parquet, got {out!r}.", "for example adjusted.csv.")
    for name, target in evaluated.items():
        if target is not None and not held_out:
            raise TiltlensError(f"--{name} needs --held-out.", "--save writes the adjustment without it.")


def _read_saved(path: str, options: Options, has_rows: bool) -> ScoreTilt | DiscriminationFreePrice:
    """Return a saved adjustment; raise for options of the fit."""
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
    """Return the adjustment and, to evaluate scores, its counterpart with or without the group."""
    if not options["scores"]:
        raise TiltlensError("`tiltlens repair` needs --scores.", "name the column of probabilities to adjust.")
    settings = {name: options[name] for name in TO_FIT}
    with progress_shown(json) as progress:
        audit = audit_files(data, progress, folds=0, **{k: v for k, v in options.items() if k not in TO_FIT})
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
    table = rows_of(_read(held_out, options))
    check_columns("where", options["where"], table.columns)
    check_columns("group", _group(options), table.columns)
    rows = table.filter(meets(table, options["where"]))
    columns = _columns(options["scores"]), _columns(options["group"])
    shared = {name: options[name] for name in ("outcome", "confidence", "sample_weight", "clusters")}
    if isinstance(tilt, ScoreTilt):
        shared |= {"score_class": _class_of(options["scores"], options["favourable"]), "compare_with": other}
    return [*tilt.evaluate_groups(rows, *columns, **shared).values()]


def _columns(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


def _class_of(scores: tuple[str, ...], favourable: str) -> int | None:
    """Return the class whose score is evaluated; None if there is only one column of scores."""
    if len(scores) == 1:
        return None
    if favourable not in scores:
        raise TiltlensError(
            f"--favourable must name the class to evaluate, got {favourable!r}.", f"choose one of {', '.join(scores)}."
        )
    return scores.index(favourable)


def _apply(tilt: ScoreTilt | DiscriminationFreePrice, new: tuple[str, ...], out: str, options: Options) -> None:
    """Write new rows with a column of adjusted scores, decisions or prices; they may be larger than memory."""
    group = _group(options) if isinstance(tilt, ScoreTilt) and tilt.use_group else None
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        apply_repair(tilt, _read(new, options), _columns(options["scores"]), group, out)
    for note in notes:
        click.echo(f"Note: {note.message}.", err=True)


def _read(files: tuple[str, ...], options: Options) -> Source:
    """Return files other than the audited ones as a source; a query applies to the audited rows only."""
    return read(list(files), **{name: options[name] for name in READING if name != "query"})


def _group(options: Options) -> list[str]:
    if not options["group"]:
        raise TiltlensError("`tiltlens repair` needs --group here.", "for example --group sex.")
    return list(options["group"])


def alternatives_command(data: tuple[str, ...], tolerance: float, threshold: float, **options: Value) -> None:
    """Search for less discriminatory alternatives."""
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
    deliver(outputs, alternatives, print_result, report=write_report)


def compare_command(data: tuple[str, ...], fail_if: tuple[str, ...], **options: Value) -> None:
    """Compare two models on the same rows, or two saved audits."""
    gates = [gate(condition, OF_CHANGES) for condition in fail_if]
    outputs = {name: options.pop(name) for name in ("json", "report", "junit")}
    check_targets(outputs, data)
    check_gated(outputs["junit"], gates)
    change = _compare(data, **options)
    judgements = [judgement for condition in gates for judgement in condition.judge(change)]
    deliver(outputs, change, print_result, report=write_report, junit=partial(write_junit, judgements))
    if report_gates(gates, judgements, change):
        sys.exit(GATE_FAILED)


def _compare(data: tuple[str, ...], scores: tuple[str, ...], **options: Value) -> Change:
    """Return the change between two models on the same rows, or between two saved audits."""
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
            "`tiltlens compare` needs two saved audits, or data with two --scores, got no --scores and "
            f"{len(data)} file{'' if len(data) == 1 else 's'}.",
            "for example old.json new.json.",
        )
    refuse_options(options, "with two saved audits", "drop it, or audit the data again with it.")
    return saved_change(*data)


def rule_command(data: tuple[str, ...], rule: str, json: str | None, **options: Value) -> None:
    """Make the tables that a published rule describes."""
    check_targets({"json": json}, data)
    lists = {"group": list(options["group"]), "strata": list(options["strata"]) or None}
    source = read(list(data), **{name: options.pop(name) for name in READING})
    tables = rule_tables(source, rule, **options | lists)
    deliver({"json": json}, tables, print_result)
