"""`tiltlens repair`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import click

from tiltlens.commands.auditing import audited, rows_of
from tiltlens.commands.options import DATA, JSON, OF_ACTIONS, OUTCOME, READING, options_of_audits, refuse_options
from tiltlens.commands.targets import announce, check_targets, progress_shown, screen, write_outputs
from tiltlens.errors import TiltlensError

if TYPE_CHECKING:
    import polars as pl

    from tiltlens.repair.score_tilt import ScoreTilt
    from tiltlens.sources.read_options import Source

OF_FITS = {"reference", "audited", "features", "exclude", "random_state"}
OF_FITS |= {"categorical", "blocks", "sample_rows", "metric", "max_gap", "threshold", "use_group", "save"}


@click.command("repair")
@DATA
@options_of_audits(but=OF_ACTIONS - {"trusted"})
@OUTCOME
@click.option(
    "--metric",
    type=click.Choice(["mean_score", "fpr", "fnr", "equalized_odds"]),
    default="mean_score",
    show_default=True,
    help="Quantity to equalise. equalized_odds is fpr and fnr together; all but mean_score need --outcome.",
)
@click.option("--max-gap", type=float, default=0.0, show_default=True, help="Largest gap that may remain.")
@click.option("--threshold", type=float, help="Repair decisions, 1 from this score on, instead of scores.")
@click.option("--use-group", is_flag=True, help="Look at the group of every new row, which may be regulated.")
@click.option(
    "--held-out", multiple=True, metavar="FILE", help="Rows to evaluate the repair on, not used in the fit. Repeat."
)
@click.option("--save", metavar="FILE.json", help="Write the repair, as numbers and texts.")
@click.option(
    "--apply",
    "new",
    multiple=True,
    metavar="FILE",
    help="New rows whose scores to adjust; needs --out. Repeat for more.",
)
@click.option("--out", metavar="FILE", help="File for the new rows with their adjusted scores: .csv or .parquet.")
@JSON
@click.option("--report", "report", metavar="FILE.html", help="Also write the evaluation as an HTML page.")
def command(
    data: tuple[str, ...],
    held_out: tuple[str, ...],
    save: str | None,
    new: tuple[str, ...],
    out: str | None,
    json_target: str | None,
    report: str | None,
    **options: Any,
) -> None:
    """Close a gap by the least change of scores.

    DATA: the audited rows, as for `tiltlens audit`; or a file that --save wrote. --held-out, other rows with the same
    columns, shows the effect on held-out data, without the group and with it; --json and --report write this
    evaluation. For several classes it evaluates the one that --favourable names.

    Exit codes: 0 success, 2 invalid arguments or data.
    """
    from tiltlens.render.document_page import write_evaluations
    from tiltlens.render.terminal import print_evaluations, print_repair

    _check_options(held_out, new, out, json_target or report)
    outputs = {"json": json_target, "report": report, "save": save, "out": out}
    check_targets(outputs, data, held_out, new)
    if _is_saved(data):
        tilt, other = _read_saved(data, options, has_rows=bool(held_out or new)), None
    else:
        tilt, other = _fit(data, json_target, bool(held_out), options)
    evaluations = _evaluate(tilt, other, held_out, options) if held_out else None
    if new and out is not None:
        _apply(tilt, new, out, options)
        announce("repaired table is", out)
    if save is not None:
        tilt.to_json(save)
        announce("repair is", save)
    if evaluations is not None:
        write_outputs(outputs, evaluations, report=write_evaluations)
    if json_target == "-":
        return
    if evaluations is None:
        print_repair(tilt.summary() | {"group": " & ".join(options["group"]) or "group"}, screen())
    else:
        print_evaluations(evaluations, screen())


def _check_options(held_out: tuple[str, ...], new: tuple[str, ...], out: str | None, wanted: str | None) -> None:
    """Raise where options that go together do not."""
    if bool(new) != (out is not None):
        given, missing = ("--apply", "--out") if new else ("--out", "--apply")
        raise TiltlensError(
            f"`{given}` must come with `{missing}`, got it alone.", "for example --apply new.csv --out repaired.csv."
        )
    if out is not None and not out.lower().endswith((".csv", ".parquet")):
        raise TiltlensError(f"`--out` must end in .csv or .parquet, got {out!r}.", "for example repaired.csv.")
    if wanted is not None and not held_out:
        raise TiltlensError(
            f"`--json` and `--report` must come with `--held-out`, got {wanted!r} without.",
            "they write the evaluation on held-out data; --save writes the repair.",
        )


def _is_saved(data: tuple[str, ...]) -> bool:
    return len(data) == 1 and data[0].lower().endswith(".json")


def _read_saved(data: tuple[str, ...], options: dict[str, Any], has_rows: bool) -> ScoreTilt:
    """Return a saved repair; options of the fit are refused."""
    from tiltlens.repair.score_tilt import read_repair

    refuse_options(OF_FITS, "with data", "with a saved repair", "it is applied as it is: leave it out, or fit anew.")
    tilt, given = read_repair(data[0], options["trusted"]), len(options["scores"])
    wanted = tilt.classes if tilt.classes > 2 else 1
    if has_rows and given != wanted:
        rule = "the column to repair" if wanted == 1 else f"{wanted} columns, one for each class of the repair"
        raise TiltlensError(f"`--scores` must be {rule}, got {given or 'none'}.", "for example --scores score.")
    return tilt


def _fit(
    data: tuple[str, ...], json_target: str | None, is_evaluated: bool, options: dict[str, Any]
) -> tuple[ScoreTilt, ScoreTilt | None]:
    """Return the repair; for an evaluation also the same one with, or without, the group."""
    if not options["scores"]:
        raise TiltlensError(
            "`--scores` must be the column to repair, got none.", "a repair is of a model's probabilities."
        )
    settings = {name: options[name] for name in ("max_gap", "metric", "threshold")}
    of_audit = {name: value for name, value in options.items() if name not in (*settings, "use_group")}
    with progress_shown(json_target) as progress:
        result = audited(data, progress=progress, **of_audit)
    use_group = options["use_group"]
    tilt = result.repair(use_group=use_group, **settings)
    if not is_evaluated:
        return tilt, None
    try:
        return tilt, result.repair(use_group=not use_group, **settings)
    except TiltlensError as error:
        way = "without" if use_group else "with"
        click.echo(f"Note: no repair {way} the group to compare with: {str(error).splitlines()[0]}", err=True)
        return tilt, None


def _evaluate(
    tilt: ScoreTilt, other: ScoreTilt | None, held_out: tuple[str, ...], options: dict[str, Any]
) -> dict[str, Any]:
    """Return the evaluations of the audited groups on held-out rows."""
    from tiltlens.repair.evaluation import evaluations_summary
    from tiltlens.sources.messages import check_columns

    table = _selected(rows_of(_files(held_out, options)), options["where"])
    if not options["group"]:
        raise _no_group()
    check_columns("group", list(options["group"]), table.columns)
    evaluations = tilt.evaluate_groups(
        table,
        _columns(options["scores"]),
        _columns(options["group"]),
        score_class=_class_of(options["scores"], options["favourable"]),
        outcome=options["outcome"],
        confidence=options["confidence"],
        compare_with=other,
        sample_weight=options["sample_weight"],
        clusters=options["clusters"],
    )
    return evaluations_summary(evaluations.values())


def _columns(names: tuple[str, ...]) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


def _class_of(scores: tuple[str, ...], favourable: str) -> int | None:
    """Return the class whose score is evaluated; None where there is one column of scores."""
    if len(scores) == 1:
        return None
    if favourable not in scores:
        raise TiltlensError(
            f"`--favourable` must name one of several --scores for an evaluation, got {favourable!r}.",
            f"name the class to evaluate: one of {', '.join(scores)}.",
        )
    return scores.index(favourable)


def _apply(tilt: ScoreTilt, new: tuple[str, ...], out: str, options: dict[str, Any]) -> None:
    """Write new rows with a column more: their repaired scores, or decisions. They may be larger than memory."""
    group = list(options["group"])
    if tilt.use_group and not group:
        raise _no_group()
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        named, who = _columns(options["scores"]), group if tilt.use_group else None
        tilt.apply(_files(new, options), named, who, out)
    for note in notes:
        click.echo(f"Note: {note.message}.", err=True)


def _files(files: tuple[str, ...], options: dict[str, Any]) -> Source:
    """Return other files than the audited ones as a source; a query is for the audited rows alone."""
    from tiltlens.sources.read_options import read

    return read(list(files), **{name: options[name] for name in READING if name != "query"})


def _selected(table: pl.DataFrame, where: dict[str, str]) -> pl.DataFrame:
    """Return the rows that meet the conditions of the audit."""
    from tiltlens.rows.weights import equals_mask
    from tiltlens.sources.messages import check_columns

    check_columns("where", list(where), table.columns)
    for name, value in where.items():
        table = table.filter(equals_mask(table[name], value))
    return table


def _no_group() -> TiltlensError:
    return TiltlensError("`--group` must be the column of groups, got none.", "for example --group sex.")
