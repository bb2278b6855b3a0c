"""Options of `tiltlens audit` → an audit, written where they say."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, chdir, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tiltlens.commands.options import READING
from tiltlens.commands.targets import (
    check_gated,
    check_writable,
    places_of,
    progress_shown,
    screen,
    told_gates,
    write_junit,
    write_outputs,
)
from tiltlens.errors import TiltlensError

if TYPE_CHECKING:
    import polars as pl

    from tiltlens.gates import Gate
    from tiltlens.results.audit import Audit
    from tiltlens.sources.read_options import Source

# What commands leave out that act on an audit: they need its rows, not its intervals.
NOT_ASKED: dict[str, Any] = {
    **{"group_probability": {}, "provenance": {}, "wording": {}, "exempt": (), "trusted": ()},
    **dict.fromkeys(
        ("model", "known_groups", "metric", "threshold", "propensity", "periods", "materiality", "progress")
    ),
    **{"score_type": "probability", "input_weight": 1.0, "output_weight": 1.0, "folds": 0},
}


@dataclass(frozen=True, slots=True)
class Asked:
    """An audit that is asked for, checked as far as that can be done without the data.

    `file` is the audit file that asks for it: relative names of data start there, and the same question and data give
    the same bytes, without the date of other audits.
    """

    data: tuple[str, ...]
    options: dict[str, Any]
    gates: list[Gate]
    outputs: dict[str, str | None]  # by option
    file: Path | None = None

    @classmethod
    def of(cls, options: dict[str, Any], file: Path | None = None) -> Asked:
        """Return what the options of `tiltlens audit` ask for."""
        from tiltlens.gates import gate

        rest = dict(options)
        gates = [gate(text) for text in rest.pop("conditions")]
        for one in gates:
            one.check_range(is_amount=rest["score_type"] == "amount")
        names = {"json": "json_target"} | {name: name for name in ("report", "tables", "junit")}
        outputs = {option: rest.pop(name) for option, name in names.items()}
        check_writable(outputs)
        _check_values(rest)
        check_gated(outputs["junit"], gates)
        return cls(rest.pop("data"), rest, gates, outputs, file)

    def at_home(self) -> AbstractContextManager[None]:
        """Return what makes names of files relative to where they are written down."""
        return nullcontext() if self.file is None else chdir(self.file.resolve().parent)

    def audited(self, progress: Any = None) -> Audit:
        """Return the audit."""
        with self.at_home():
            found = audited(self.data, progress=progress, **self.options)
        return found if self.file is None else replace(found, provenance=found.provenance.undated())


def check_apart(*asked: Asked) -> None:
    """Raise where an audit's output would replace what it or another reads or writes."""
    from tiltlens.inputs import check_outputs
    from tiltlens.sources.files import inputs_of

    inputs = inputs_of(*(str(one.file) for one in asked if one.file is not None))
    for one in asked:
        with one.at_home():
            inputs += inputs_of(one.data, one.options["model"])
    check_outputs([place for one in asked for place in places_of(one.outputs, one.file)], inputs)


def answered(asked: Asked) -> bool:
    """Carry out an audit, print and write it; return whether a gate fired."""
    from tiltlens.render.page import check_report, write_report
    from tiltlens.render.table_files import write_tables
    from tiltlens.render.terminal import print_audit, printable
    from tiltlens.results.codec import to_plain

    check_report(asked.outputs["report"])
    with progress_shown(asked.outputs["json"]) as progress:
        result = asked.audited(progress)
    judged = [said for one in asked.gates for said in one.judged(result)]  # a mistake in a gate leaves nothing written
    outcome = asked.options["outcome"]
    if outcome is not None:
        beside = "what came of people, for error rates of the scores"
        alone = "a logistic model was trained on it and audited; name yours with --scores or --model"
        has_model = asked.options["scores"] or asked.options["model"]
        click.echo(f"--outcome {printable(outcome)}: {beside if has_model else alone}.", err=True)
    has_parts = asked.outputs["json"] or asked.outputs["report"]  # which take time to compute
    summary = result.to_dict() if has_parts else to_plain(result)
    of_gates = partial(write_junit, judged)
    write_outputs(asked.outputs, summary, report=write_report, tables=write_tables, junit=of_gates)
    if asked.outputs["json"] != "-":
        print_audit(summary, screen())
    return told_gates(asked.gates, judged, result)


def audited(files: tuple[str, ...], **options: Any) -> Audit:
    """Return the audit that the options of a command ask for."""
    from tiltlens._pipeline import audit as run
    from tiltlens.learners.paper_fit import with_outcome_scores
    from tiltlens.model_files.load import load_model
    from tiltlens.rows.roles import Request, check_some, declared_features
    from tiltlens.sources.messages import check_columns
    from tiltlens.sources.read_options import read

    options = NOT_ASKED | options
    _check_values(options)
    outcome, scores = options.pop("outcome"), options.pop("scores")
    features, soft = options.pop("features"), options.pop("group_probability")
    path, trusted = options.pop("model"), options.pop("trusted")
    group_columns = list(soft.values()) or list(options["group"])
    arguments = {
        **options,
        "group": soft or group_columns,
        "audited": list(options["audited"]) or None,
        "where": options["where"] or None,
        "folds": options["folds"] or None,
        "features": None if features is None else list(features),
        "exclude": list(options["exclude"]) or None,
        "exempt": list(options["exempt"]) or None,
        "blocks": {name: columns.split(",") for name, columns in options["blocks"].items()},
    }
    source = read(list(files), **{name: arguments.pop(name) for name in READING})
    if path:
        model = load_model(path, trusted)
        arguments["provenance"] = {"model file": _described(path)} | arguments["provenance"]
        return run(source, model=model, outcome=outcome, **arguments)
    if scores:
        named = list(scores) if len(scores) > 1 else scores[0]
        return run(source, scores=named, outcome=outcome, **arguments)
    table = rows_of(source)
    check_columns("outcome", [outcome], table.columns)
    roles = [
        options[name]
        for name in ("sample_weight", "propensity", "clusters", "known_groups", "periods")
        if options[name]
    ]
    used = [*group_columns, *(arguments["where"] or ()), outcome, *roles]
    asked = {name: arguments.pop(name) for name in ("exclude", "categorical", "blocks")}
    request = Request(group=group_columns, features=arguments["features"], **asked)
    arguments["features"], declared = declared_features(request, table.columns, used)
    table = declared.applied(table)
    check_some(arguments["features"], table.columns, "--outcome")
    wanted = arguments.pop("favourable")
    table, columns, favourable = with_outcome_scores(table, arguments["features"], outcome, wanted)
    return run(table, scores=columns, favourable=favourable, **arguments)


def rows_of(source: Source) -> pl.DataFrame:
    """Return all rows of a source, and print the notes on how they were read."""
    from tiltlens.render.terminal import printable
    from tiltlens.sources.opening import batches_of, collected_rows, reading_notes

    batches = batches_of(source)
    if batches is None:
        raise TiltlensError("DATA must be files or a database, got neither.", "name a file.")
    table = collected_rows(batches)
    for note in reading_notes(batches, table.columns):
        click.echo(f"Note: {printable(note)}.", err=True)
    return table


def _check_values(options: dict[str, Any]) -> None:
    """Raise where options contradict each other, or a number is none that an audit can be asked with."""
    from tiltlens.analysis.settings import Settings
    from tiltlens.rows.scores import check_score_type

    outcome, scores, path, soft = (options[name] for name in ("outcome", "scores", "model", "group_probability"))
    _check_outputs(scores, path, options["trusted"])
    _check_outcome(outcome, scores or path, options["metric"])
    if outcome is not None and not scores and not path and options["score_type"] == "amount":
        raise TiltlensError("`--score-type amount` must come with `--scores`, got `--outcome`.", "it is of amounts.")
    if bool(soft) == bool(options["group"]):
        raise TiltlensError(
            f"exactly one of `--group` and `--group-probability` must be given, got {'both' if soft else 'neither'}.",
            "--group is a column of groups; --group-probability NAME=COLUMN a group and the column of its probability.",
        )
    check_score_type(options["score_type"], options["threshold"])
    named = [one.name for one in fields(Settings) if options.get(one.name) is not None]
    Settings(**{name: options[name] for name in named} | {"folds": options["folds"] or None})


def _check_outputs(scores: tuple[str, ...], path: str | None, trusted: tuple[str, ...]) -> None:
    """Raise where outputs come from two places, or types are trusted of no file."""
    if scores and path:
        raise TiltlensError(
            f"one of `--scores` and `--model` must be given, got --scores {scores[0]} and --model {path}.",
            "scores are a column that a model made; a model makes them anew.",
        )
    if trusted and not path:
        raise TiltlensError(
            f"`--trusted` must come with `--model`, got {trusted[0]!r}.", "it is of types in a model file."
        )


def _described(path: str) -> str:
    """Return a model file's name and fingerprint, for the record."""
    from hashlib import sha256

    file = Path(path)
    return f"{file.name}, SHA-256 {sha256(file.read_bytes()).hexdigest()}"


def _check_outcome(outcome: str | None, scores: Sequence[str] | None, metric: str | None) -> None:
    """Raise unless there is something to audit."""
    if not scores and outcome is None:
        raise TiltlensError(
            "`--scores`, `--model` or `--outcome` must be given, got none of them.",
            "scores are a column of the model's probabilities, --model is its file; an outcome alone trains a model.",
        )
    if metric is not None and (outcome is None or not scores):
        missing = "--outcome" if scores else "--scores"
        raise TiltlensError(
            f"`--metric` must come with `{missing}`, got {metric!r} without.",
            "an error rate is of a model's scores, or decisions, and what came of people.",
        )
