"""The commands `tiltlens audit` and `demo`, and audits for other commands."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, chdir, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from hashlib import sha256
from pathlib import Path

import click
import polars as pl

from tiltlens._analysis.evidence import Settings
from tiltlens._commands.options import AUDIT, READING, Options, Value, usual_options
from tiltlens._commands.outputs import (
    GATE_FAILED,
    check_gated,
    check_targets,
    check_writable,
    deliver,
    places_of,
    progress_shown,
    report_gates,
    write_junit,
)
from tiltlens._demo import paper_experiment, print_demo
from tiltlens._gates import Gate, gate
from tiltlens._learners.candidates import with_outcome_scores
from tiltlens._model_files.load import load_model
from tiltlens._pipeline import audit
from tiltlens._render.page import check_report, write_report
from tiltlens._render.table_files import write_tables
from tiltlens._render.terminal import print_result, printable
from tiltlens._results.audit import Audit
from tiltlens._results.monitor import StateFile
from tiltlens._rows.roles import ONE_COLUMN, FeatureChoice, check_some, declared_features
from tiltlens._rows.scores import check_score_type
from tiltlens._sources.engines import batches_of, collected_rows, reading_notes
from tiltlens._sources.files import inputs_of
from tiltlens._sources.text_columns import Source, read
from tiltlens._threads import Listener
from tiltlens.errors import TiltlensError, check_columns, check_outputs

OUTPUTS = ("json", "report", "tables", "junit")


def audit_command(**options: Value) -> None:
    """Audit a model's scores, decisions or amounts."""
    request = AuditRequest.of(options)
    check_apart(request)
    if run_audit(request):
        sys.exit(GATE_FAILED)


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """The data, options, gates and outputs of an audit, checked as far as possible without the data.

    `file` is the audit file that describes it: names of data are relative to it, and the date is omitted, so that the
    same file and data give the same bytes.
    """

    data: tuple[str, ...]
    options: Options
    gates: list[Gate]
    outputs: dict[str, str | None]  # by option
    file: Path | None = None

    @classmethod
    def of(cls, options: Mapping[str, Value], file: Path | None = None) -> AuditRequest:
        """Return the audit that the options of `tiltlens audit` describe."""
        gates = [gate(text) for text in options["fail_if"]]
        for condition in gates:
            condition.check_range(is_amount=options["score_type"] == "amount")
        outputs = {name: options[name] for name in OUTPUTS}
        check_writable(outputs)
        settings = {name: options[name] for name in AUDIT}
        _check_options(settings)
        check_gated(outputs["junit"], gates)
        return cls(options["data"], settings, gates, outputs, file)

    def at_home(self) -> AbstractContextManager[None]:
        """Return a context in which names of files are relative to the audit file."""
        return nullcontext() if self.file is None else chdir(self.file.resolve().parent)

    def state_place(self) -> tuple[str, str | Path]:
        """Return the state file with its option or its key in the audit file, for messages."""
        state = self.options["monitor"]
        if self.file is None:
            return "--monitor", state
        return f"`monitor` in {str(self.file)!r}", Path(state).absolute()

    def run(self, progress: Listener | None = None) -> Audit:
        """Return the audit; its state file, if any, is only written by `Audit.count_batch`, after all outputs."""
        state = self.options["monitor"]
        with self.at_home():
            file = None if state is None else StateFile.read(state)
            audit = audit_files(self.data, progress, **self.options | {"monitor": file})
        return audit if self.file is None else replace(audit, provenance=audit.provenance.undated())


def check_apart(*requests: AuditRequest) -> None:
    """Raise if an output would replace an input or an output of these audits."""
    inputs = inputs_of(*(str(request.file) for request in requests if request.file is not None))
    places: list[tuple[str, str | Path | None]] = []
    for request in requests:
        with request.at_home():
            inputs += inputs_of(request.data, request.options["model"])
            if request.options["monitor"] is not None:
                places.append(request.state_place())
        places += places_of(request.outputs, request.file)
    check_outputs(places, inputs)


def run_audit(request: AuditRequest) -> bool:
    """Run an audit, print and write its results, and return whether a gate failed."""
    outputs, options = request.outputs, request.options
    check_report(outputs["report"])
    with progress_shown(outputs["json"]) as progress:
        audit = request.run(progress)
    judgements = [judgement for gate in request.gates for judgement in gate.judge(audit)]  # before anything is written
    has_costs = options["score_type"] == "amount" and options["outcome"] is not None
    if options["outcome"] is not None:
        given = "observed costs of the amounts" if has_costs else "read as observed outcomes, which add error rates"
        trained = "a logistic model of this outcome was trained and audited; for your model use --scores or --model"
        use = given if options["scores"] or options["model"] else trained
        click.echo(f"--outcome {printable(options['outcome'])}: {use}.", err=True)
    has_fits = bool(outputs["json"] or outputs["report"] or has_costs)  # extra fits, which take time
    show, junit = partial(print_result, has_fits=has_fits), partial(write_junit, judgements)
    deliver(outputs, audit, show, report=write_report, tables=write_tables, junit=junit)
    audit.count_batch()  # last, so that an interrupted run can be repeated
    return report_gates(request.gates, judgements, audit)


def audit_files(files: tuple[str, ...], progress: Listener | None = None, **options: Value) -> Audit:
    """Return the audit of files with a command's options; options that the command lacks have their defaults."""
    options = {name: value for name, value in usual_options().items() if name in AUDIT} | options
    _check_options(options)
    scores, outcome, path, trusted, probabilities = (
        options.pop(name) for name in ("scores", "outcome", "model", "trusted", "group_probability")
    )
    source = read(list(files), **{name: options.pop(name) for name in READING})
    groups = list(probabilities.values()) or list(options["group"])
    arguments = {
        **options,
        **{name: list(options[name] or ()) or None for name in ("audited", "exclude", "exempt")},
        "group": probabilities or groups,
        "where": options["where"] or None,
        "folds": options["folds"] or None,
        "features": None if options["features"] is None else list(options["features"]),
        "blocks": {name: columns.split(",") for name, columns in options["blocks"].items()},
        "progress": progress,
    }
    if path:
        model = load_model(path, trusted)
        digest = sha256(Path(path).read_bytes()).hexdigest()
        arguments["provenance"] = {"model file": f"{Path(path).name}, SHA-256 {digest}"} | arguments["provenance"]
        return audit(source, model=model, outcome=outcome, **arguments)
    if scores:
        return audit(source, scores=list(scores) if len(scores) > 1 else scores[0], outcome=outcome, **arguments)
    return _audit_trained_model(source, outcome, groups, arguments)


def _audit_trained_model(source: Source, outcome: str, groups: list[str], arguments: Options) -> Audit:
    """Return the audit of a logistic model of the outcome, trained on the same rows."""
    table = rows_of(source)
    check_columns("outcome", [outcome], table.columns)
    columns = [arguments.get(name) for name in ONE_COLUMN]
    used = [*groups, *(arguments["where"] or ()), outcome, *(column for column in columns if column is not None)]
    declared = {name: arguments.pop(name) for name in ("exclude", "categorical", "blocks")}
    choice = FeatureChoice(arguments["features"], **declared)
    arguments["features"], declarations = declared_features(choice, None, table.columns, used)
    table = declarations.applied(table)
    check_some(arguments["features"], table.columns, "--outcome")
    table, scores, favourable = with_outcome_scores(table, arguments["features"], outcome, arguments.pop("favourable"))
    return audit(table, scores=scores, favourable=favourable, **arguments)


def rows_of(source: Source) -> pl.DataFrame:
    """Return all rows of a source, and print notes on how they were read."""
    batches = batches_of(source)
    if batches is None:
        raise TiltlensError("DATA must be files or a database.", "name a file.")
    table = collected_rows(batches)
    for note in reading_notes(batches, table.columns):
        click.echo(f"Note: {printable(note)}.", err=True)
    return table


def _check_options(options: Mapping[str, Value]) -> None:
    """Raise if options contradict each other, or if a number is invalid for any audit."""
    outcome, scores, model, trusted = (options[name] for name in ("outcome", "scores", "model", "trusted"))
    if scores and model:
        raise TiltlensError(f"--scores {scores[0]} and --model {model} cannot be combined.", "drop one of them.")
    if trusted and not model:
        raise TiltlensError("--trusted needs --model.", "it names types in a model file.")
    if not scores and not model and outcome is None:
        raise TiltlensError("Nothing to audit.", "add --scores COLUMN, --model FILE, or --outcome COLUMN.")
    if options["metric"] is not None and (outcome is None or not (scores or model)):
        missing = "--outcome" if scores or model else "--scores"
        raise TiltlensError(f"--metric {options['metric']} needs {missing}.", f"add {missing} COLUMN.")
    if not scores and not model and options["score_type"] == "amount":
        raise TiltlensError("--score-type amount needs --scores.", "add --scores COLUMN.")
    if bool(options["group_probability"]) == bool(options["group"]):
        if options["group"]:
            raise TiltlensError("--group and --group-probability cannot be combined.", "drop one of them.")
        raise TiltlensError("No group given.", "add --group COLUMN, for example --group sex.")
    check_score_type(options["score_type"], options["threshold"])
    given = [field.name for field in fields(Settings) if options.get(field.name) is not None]
    Settings(**{name: options[name] for name in given} | {"folds": options["folds"] or None})


def demo_command(json: str | None, report: str | None) -> None:
    """Run the paper's experiment on bundled COMPAS data."""
    outputs = {"json": json, "report": report}
    check_targets(outputs)
    deliver(outputs, paper_experiment(), print_demo, report=lambda own, target: write_report(own.cross_fitted, target))
