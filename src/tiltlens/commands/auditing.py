"""Options of `tiltlens audit` → an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tiltlens.commands.options import pairs
from tiltlens.errors import TiltlensError

if TYPE_CHECKING:
    import polars as pl

    from tiltlens.engines.read_options import ReadOptions
    from tiltlens.results.audit import Audit

# What commands leave out that act on an audit: they need its rows, not its intervals.
NOT_ASKED: dict[str, Any] = {
    **dict.fromkeys(("soft_group", "exempt", "stated"), ()),
    **dict.fromkeys(("labels", "criterion", "threshold", "membership", "periods", "materiality", "progress")),
    **{"output": "probability", "input_weight": 1.0, "output_weight": 1.0, "folds": 0},
}


def audited(files: tuple[str, ...], **options: Any) -> Audit:
    """Return the audit that the options of a command ask for."""
    from tiltlens.audit import audit as run
    from tiltlens.engines.messages import check_columns
    from tiltlens.engines.read_options import read_options
    from tiltlens.models.paper_fit import with_outcome_scores
    from tiltlens.models.roles import check_some, feature_names

    options = NOT_ASKED | options
    outcome, scores, stated = options.pop("outcome"), options.pop("scores"), options.pop("stated")
    _check_outcome(outcome, scores, options["criterion"])
    if outcome is not None and not scores and options["output"] == "amount":
        raise TiltlensError("`--output amount` must come with `--scores`, got `--outcome`.", "it is of amounts.")
    listed = options.pop("features")
    features = [name for part in listed for name in part.split(",") if name] if listed else None
    soft = pairs("--soft-group", "NAME=COLUMN", options.pop("soft_group"), "Black=p_black")
    if bool(soft) == bool(options["group"]):
        raise TiltlensError(
            f"exactly one of `--group` and `--soft-group` must be given, got {'both' if soft else 'neither'}.",
            "--group is a column of groups; --soft-group NAME=COLUMN a group and the column of its probability.",
        )
    group_columns = list(soft.values()) or list(options["group"])
    arguments = {
        **options,
        "group": soft or group_columns,
        "audited": list(options["audited"]) or None,
        "given": pairs("--given", "COLUMN=VALUE", options["given"], "repaid=1") or None,
        "provenance": pairs("--state", "NAME=TEXT", stated, '"model=credit 3.1"'),
        "folds": options["folds"] or None,
        "features": features,
        "exclude": list(options["exclude"]) or None,
        "exempt": list(options["exempt"]) or None,
    }
    if scores:
        named = list(scores) if len(scores) > 1 else scores[0]
        return run(list(files), scores=named, outcome=outcome, **arguments)
    reading = {name: arguments.pop(name) for name in ("na_values", "encoding", "sheet", "query")}
    table = rows_of(files, read_options(**reading))
    check_columns("outcome", [outcome], table.columns)
    roles = [options[name] for name in ("weights", "membership", "clusters", "labels", "periods") if options[name]]
    used = [*group_columns, *(arguments["given"] or ()), outcome, *roles]
    arguments["features"] = feature_names(features, table.columns, used, arguments.pop("exclude"))
    check_some(arguments["features"], table.columns, "--outcome")
    wanted = arguments.pop("favourable")
    table, columns, favourable = with_outcome_scores(table, arguments["features"], outcome, wanted)
    return run(table, scores=columns, favourable=favourable, **arguments)


def rows_of(files: tuple[str, ...], reading: ReadOptions) -> pl.DataFrame:
    """Return all rows of files, and say how they were read where their owner may not expect it."""
    from tiltlens.engines.sources import batches_of, collected_rows, reading_notes
    from tiltlens.views.terminal import printable

    batches = batches_of(list(files), reading)
    if batches is None:
        raise TiltlensError("DATA must be files or a database, got neither.", "name a file.")
    table = collected_rows(batches)
    for note in reading_notes(batches, table.columns):
        click.echo(f"Note: {printable(note)}.", err=True)
    return table


def _check_outcome(outcome: str | None, scores: tuple[str, ...], criterion: str | None) -> None:
    """Raise unless there is something to audit."""
    if not scores and outcome is None:
        raise TiltlensError(
            "`--scores` or `--outcome` must be given, got neither.",
            "scores are a column of the model's probabilities; an outcome alone trains a model to look at.",
        )
    if criterion is not None and (outcome is None or not scores):
        missing = "--scores" if outcome is not None else "--outcome"
        raise TiltlensError(
            f"`--criterion` must come with `{missing}`, got {criterion!r} without.",
            "an error rate is of a model's scores, or decisions, and what came of people.",
        )
