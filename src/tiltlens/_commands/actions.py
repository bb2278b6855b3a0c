"""Commands based on models and audits: `tiltlens repair`, `alternatives`, `compare` and `rule`."""

from __future__ import annotations

import sys
import warnings
from functools import partial
from typing import TYPE_CHECKING

import click

from tiltlens._commands.audit import audit_files, rows_of
from tiltlens._commands.options import (
    AUDIT,
    DATA,
    GATE_FAILED,
    GATED,
    NOT_OF_ACTIONS,
    READING,
    WRITING,
    Options,
    Spec,
    Value,
    announce,
    check_gated,
    check_targets,
    command,
    deliver,
    only,
    progress_shown,
    refuse_options,
    report_gates,
    screen,
    with_options,
    without,
    write_junit,
)
from tiltlens.errors import TiltlensError

if TYPE_CHECKING:
    from tiltlens._repair.evaluation import Evaluation
    from tiltlens._repair.free_price import DiscriminationFreePrice
    from tiltlens._repair.score_tilt import ScoreTilt
    from tiltlens._results.change import Change
    from tiltlens._sources.text_columns import Source


OF_AUDITS = without(AUDIT, ("model", "trusted", "periods", "monitor"))
TO_COMPARE = {
    "scores": Spec("Outcome", "COLUMN", "Scores in DATA: first the old model's, then the new one's.", multiple=True),
    "outcome": Spec("Outcome", "COLUMN", "Observed outcome, 0 or 1; adds error rates."),
    "fail_if": Spec(
        "Output",
        "GATE",
        'Exit with code 1 if the condition holds, e.g. "gap_change.low>0.01". Repeat for more.',
        multiple=True,
    ),
}
OF_RULE = {
    "rule": Spec("Inference", "RULE", "Rule: four-fifths or nyc-local-law-144.", required=True),
    "group": Spec(
        "Groups", "COLUMN", "Group column, e.g. sex. Repeat for intersections.", multiple=True, required=True
    ),
    "selected": Spec("Outcome", "COLUMN", "Decisions: 0 and 1, or two words."),
    "scores": Spec("Outcome", "COLUMN", "Scores on any scale; the rate is the share above their median."),
    "strata": Spec(
        "Groups", "COLUMN", "Column of strata, e.g. job; adds tests within strata. Repeat for more.", multiple=True
    ),
    "ratio_threshold": Spec(
        "Inference", "RATIO", "Impact ratio below which a group is flagged (default the rule's).", type=float
    ),
    "smallest_share": Spec(
        "Inference", "SHARE", "Share of the data below which a group has no ratio (default the rule's).", type=float
    ),
}


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
    """Find the smallest change in scores that closes a gap.

    For amounts with observed costs, it finds the discrimination-free price.

    DATA: the audited rows, as for `tiltlens audit`; or a file that --save wrote. With --held-out (other rows with the
    same columns), it evaluates the adjustment both without and with the group. If there are several classes, it
    evaluates the one that --favourable names.
    """
    from tiltlens._render.page import write_evaluations
    from tiltlens._render.terminal import print_evaluations, print_repair

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
    from tiltlens._repair.evaluation import evaluations_summary
    from tiltlens._results.codec import write_json

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
    from tiltlens._repair.score_tilt import ScoreTilt
    from tiltlens._repair.solve import read_repair

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
    from tiltlens._repair.score_tilt import ScoreTilt

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
    from tiltlens._repair.quantities import meets
    from tiltlens._repair.score_tilt import ScoreTilt
    from tiltlens.errors import check_columns

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
    from tiltlens._repair.new_rows import apply_repair
    from tiltlens._repair.score_tilt import ScoreTilt

    group = _group(options) if isinstance(tilt, ScoreTilt) and tilt.use_group else None
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        apply_repair(tilt, _read(new, options), _columns(options["scores"]), group, out)
    for note in notes:
        click.echo(f"Note: {note.message}.", err=True)


def _read(files: tuple[str, ...], options: Options) -> Source:
    """Return files other than the audited ones as a source; a query applies to the audited rows only."""
    from tiltlens._sources.text_columns import read

    return read(list(files), **{name: options[name] for name in READING if name != "query"})


def _group(options: Options) -> list[str]:
    if not options["group"]:
        raise TiltlensError("`tiltlens repair` needs --group here.", "for example --group sex.")
    return list(options["group"])


SEARCH = {
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
@with_options(without(AUDIT, NOT_OF_ACTIONS) | SEARCH | only(WRITING, "json", "report"))
def alternatives_command(data: tuple[str, ...], tolerance: float, threshold: float, **options: Value) -> None:
    """Search for less discriminatory alternatives.

    DATA, --group, --scores, --outcome and other options as in `tiltlens audit`; the outcome is required. The search
    fits rules of the same features on some rows and compares them with the audited decisions on other rows. With
    --model, it also neutralises or coarsens each feature in turn.
    """
    from tiltlens._render.page import write_alternatives
    from tiltlens._render.terminal import print_alternatives
    from tiltlens._repair.alternatives import AlternativesByGroup

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


@command(
    "compare",
    "loans.csv --group sex --scores old_score --scores new_score",
    'march.json april.json --fail-if "gap_change.low>0.01"',
    exit_codes=GATED,
)
@DATA
@with_options(OF_AUDITS | only(WRITING, "json", "report", "junit") | TO_COMPARE)
def compare_command(data: tuple[str, ...], fail_if: tuple[str, ...], **options: Value) -> None:
    """Compare two models on the same rows, or two saved audits.

    DATA with --scores OLD --scores NEW, --group and other options of `tiltlens audit`: the command audits both models
    on the same rows, so intervals are paired. Or DATA are two files that `tiltlens audit --json` wrote from different
    rows, such as two periods, the old one first: intervals are those of independent samples.
    """
    from tiltlens._gates import OF_CHANGES, gate
    from tiltlens._render.page import write_change
    from tiltlens._render.terminal import print_change

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
    from tiltlens._results.audit_comparison import compare as compare_audits
    from tiltlens._results.saved_audits import saved_change

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


@command(
    "rule",
    "hiring.csv --rule four-fifths --group sex --selected hired",
    "hiring.csv --rule nyc-local-law-144 --group sex --group race --scores score",
)
@DATA
@with_options(OF_RULE | READING | only(AUDIT, "favourable", "confidence", "provenance") | only(WRITING, "json"))
def rule_command(data: tuple[str, ...], rule: str, json: str | None, **options: Value) -> None:
    """Make the tables that a published rule describes.

    DATA: files (.csv, .tsv, .parquet, .arrow, .jsonl, .xlsx; CSV may be compressed: .csv.gz), a quoted pattern, a
    folder, or the URL of a database with --query. One of --selected and --scores is needed. The exit code does not
    depend on the numbers in the tables.
    """
    from tiltlens._render.terminal import print_rule_tables
    from tiltlens._rules.tables import rule_tables
    from tiltlens._sources.text_columns import read

    check_targets({"json": json}, data)
    lists = {"group": list(options["group"]), "strata": list(options["strata"]) or None}
    source = read(list(data), **{name: options.pop(name) for name in READING})
    tables = rule_tables(source, rule, **options | lists)
    deliver({"json": json}, tables, print_rule_tables)
