"""Saved audits, read again: the same numbers, report, figures and comparisons; nothing that needs rows."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from tiltlens.analysis.bins import Bins
from tiltlens.analysis.prices import Prices
from tiltlens.analysis.splitting import Splitting
from tiltlens.errors import DataError, TiltlensError, shown
from tiltlens.estimators.dial import ShareForm
from tiltlens.inputs import Input, remember
from tiltlens.limits import DIAL_POSITIONS
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.results.audit import SCHEMA, Audit
from tiltlens.results.audit_comparison import compare
from tiltlens.results.change import Change
from tiltlens.results.codec import from_plain
from tiltlens.results.comparison import Comparison, ComparisonParts
from tiltlens.results.notes import with_displays
from tiltlens.results.outputs import CorrectionParts
from tiltlens.results.profiles import AGAIN, NO_ROWS, NoRows, Prototype, needs_rows

SAVED_SLACK = 1e-6  # of a number, up to which two that should be equal are: an edited file differs by more


def read_audit(path: str | Path) -> Audit:
    """Read an audit that `to_json` or `tiltlens audit --json FILE` wrote.

    You can print, report, plot, gate and compare the result like the original audit. Methods that need rows (`path`,
    `project`, `repair`, `alternatives`, `reweigh`, `profile`, `distribution`) raise an error, and so does a paired
    comparison.

    Parameters
    ----------
    path
        The JSON file.

    Returns
    -------
    Audit
        The audit, without its rows.

    Raises
    ------
    DataError
        If the file has another version, or parts that are missing or contradict each other.

    See Also
    --------
    Audit.to_json : Write the file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tiltlens as tl
    >>> audit = tl.audit({"sex": ["women", "men"] * 50, "score": [0.4, 0.5, 0.6, 0.8] * 25}, "sex", scores="score")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     audit.to_json(Path(folder, "audit.json"))
    ...     again = tl.read_audit(Path(folder, "audit.json"))
    >>> again[0].gap == audit[0].gap
    True
    """
    summary = _load(path)
    try:
        audit = restore_audit(summary)
        _check_groups(audit)
        _check_numbers(summary["comparisons"])
    except TiltlensError as error:
        reason = str(error).partition("\n")[0].removesuffix(".")
        raise DataError(
            f"`path` must be a whole audit as it was written, got {shown(str(path))}: {reason}.", AGAIN
        ) from None
    return audit


def restore_audit(summary: dict[str, Any]) -> Audit:
    """Return the audit whose `to_dict` this is, its parts as they were saved."""
    audit = from_plain(Audit, summary)
    saved = {
        name: _with_parts(comparison, summary["comparisons"][name], f"comparisons.{name}", audit)
        for name, comparison in audit.items()
    }
    return replace(audit, comparisons=saved)


def saved_change(old: str, new: str) -> Change:
    """Return what changed between two audits that `to_json` wrote, of different rows."""
    audits = read_audit(old), read_audit(new)
    for name in ("data_sha256", "rows_sha256"):
        hashes = [getattr(audit.provenance, name) for audit in audits]
        if hashes[0] is not None and hashes[0] == hashes[1]:
            raise DataError(
                f"two saved audits must be of different rows, got the same {name} twice.",
                "compare two models on the same rows with `tiltlens compare DATA --scores OLD --scores NEW`.",
            )
    return compare(*audits)


def _load(path: str | Path) -> dict[str, Any]:
    """Return the content of the file, which says that it is an audit of this version."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        summary = json.loads(text, parse_constant=_refuse_constant)
    except OSError as error:
        raise DataError(f"`path` must be a file that can be read, got {shown(str(path))}: {error.strerror}.") from None
    except (TypeError, ValueError, RecursionError):
        raise DataError(
            f"`path` must be the JSON of an audit, got {shown(path if isinstance(path, str) else str(path))}.",
            "write one with `audit.to_json(path)`, or `tiltlens audit … --json FILE`.",
        ) from None
    schema = summary.get("schema") if isinstance(summary, dict) else None
    if not isinstance(summary, dict) or schema != SCHEMA:
        raise _other_schema(path, schema)
    remember(Input.file(path, SCHEMA))
    return summary


def _other_schema(path: str | Path, schema: Any) -> DataError:
    family, _, version = SCHEMA.rpartition("/")
    if not isinstance(schema, str) or not schema.startswith(f"{family}/"):
        return DataError(f"`path` must be an audit of the schema {SCHEMA!r}, got {shown(schema)} in {path!r}.", AGAIN)
    found = schema.rpartition("/")[2]
    return DataError(
        f"{str(path)!r} cannot be read because it has version {found} of the schema {family!r}; tiltlens reads version "
        f"{version}.",
        AGAIN,
    )


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def _with_parts(comparison: Comparison, data: dict[str, Any], path: str, audit: Audit) -> Comparison:
    """Return the comparison with its saved parts in place of rows."""
    confidence, correction = audit.settings.confidence, comparison.correction
    parts: Any = SavedParts(
        from_plain(CorrectionParts, data["correction"], f"{path}.correction"),
        from_plain(ComparisonParts, data, path),
        confidence,
    )
    try:
        function = None if correction.numbers is None else SavedCorrection.read(correction.numbers)
    except KeyError as error:
        raise DataError(f"{path}.correction.numbers.{error.args[0]}: missing") from None
    level = None if comparison.checks.balance is None else confidence
    saved = replace(correction, function=function, _confidence=level, _profiles=parts)
    return with_displays(replace(comparison, correction=saved))


def _check_groups(audit: Audit) -> None:
    """Raise where a comparison is about other groups, or another kind of output, than the audit says."""
    if not audit.comparisons:
        raise DataError("comparisons: expected at least one, got none")
    for name, comparison in audit.items():
        expected = (name, audit.reference, audit.score_type)
        if (comparison.audited, comparison.reference, comparison.scale.score_type) != expected:
            raise DataError(f"comparisons.{name}: about other groups, or another kind of output, than the audit says")


def _check_numbers(comparisons: dict[str, Any]) -> None:
    """Raise where numbers contradict each other: a value lies in its interval, the gap is the difference of outputs."""
    for path, value, low, high in _intervals(comparisons, "comparisons"):
        slack = SAVED_SLACK * max(1.0, abs(value))
        if (low is not None and low > value + slack) or (high is not None and high < value - slack):
            raise DataError(f"{path}: {value} lies outside of its interval, {low} to {high}")
    for name, c in comparisons.items():
        audited, reference = (c["outputs"]["means"][group] for group in ("audited", "reference"))
        is_single = not isinstance(audited, list)
        if is_single and abs(abs(c["gap"]["value"]) - abs(audited - reference)) > SAVED_SLACK * max(1.0, abs(audited)):
            raise DataError(f"comparisons.{name}.gap: {c['gap']['value']} is not the difference of the outputs")


Interval = tuple[str, float, float | None, float | None]


def _intervals(part: Any, path: str) -> Iterator[Interval]:
    """Yield the path, value and ends of every estimate, and of the contributions of features."""
    if isinstance(part, list):
        for index, entry in enumerate(part):
            yield from _intervals(entry, f"{path}[{index}]")
    elif isinstance(part, dict):
        for name in ("alone", "beyond_others"):
            if part.get(name) is not None and f"{name}_low" in part:
                yield f"{path}.{name}", part[name], part[f"{name}_low"], part[f"{name}_high"]
        if part.keys() >= {"value", "low", "high"}:
            yield path, part["value"], part["low"], part["high"]
        for name, entry in part.items():
            yield from _intervals(entry, f"{path}.{name}")


@dataclass(frozen=True, slots=True, eq=False)
class SavedParts(NoRows):
    """The parts of a saved comparison, without its rows."""

    correction: CorrectionParts
    comparison: ComparisonParts
    confidence: float

    def shares_along_tradeoff(
        self, forms: Mapping[str, ShareForm], positions: int, level: float | None
    ) -> pl.DataFrame:
        """Return the saved shares; raise for other positions or another confidence."""
        if positions != DIAL_POSITIONS or level not in (None, self.confidence):
            raise needs_rows("shares_along_tradeoff at other positions, or of another confidence,")
        return self.correction.tradeoff_table

    @property
    def splitting(self) -> Splitting | None:
        """What was saved."""
        return self.comparison.splitting

    @property
    def prices(self) -> Prices | None:
        """What was saved."""
        return self.comparison.prices

    @property
    def bins(self) -> Bins:
        """What was saved."""
        return self.comparison.bins

    def prototypes(self, suppress: bool = True) -> dict[str, Prototype]:
        """Return the saved prototypes; raise for those that were suppressed."""
        if not suppress:
            raise needs_rows("prototypes with suppress=False")
        return copy.deepcopy(self.correction.prototypes)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SavedCorrection(CorrectionFunction):
    """A correction function as a file has it: the affine form and the paper's numbers, without moments."""

    numbers: dict[str, float | None]

    @classmethod
    def read(cls, numbers: dict[str, Any]) -> SavedCorrection:
        """Return the correction function with the numbers that `to_dict` wrote."""
        names = ("intercept", "on_log_odds", "descent_rate", "input_weight", "output_weight")
        on_scores = tuple(value for name, value in numbers.items() if name.startswith("on_score"))
        moments = dict.fromkeys(("audited", "reference", "log_output_ratio"), NO_ROWS)
        return cls(**{name: numbers[name] for name in names}, on_scores=on_scores, **moments, numbers=numbers)

    def to_dict(self) -> dict[str, float | None]:
        """Return the saved numbers."""
        return dict(self.numbers)

    def _saved(self, name: str) -> float:
        self._check_binary(name)
        value = self.numbers[name]
        if value is None:
            raise needs_rows(name)
        return value

    rho_m = property(lambda self: self._saved("rho_m"))
    a1 = property(lambda self: self._saved("a1"))
    a2 = property(lambda self: self._saved("a2"))
    b1 = property(lambda self: self._saved("b1"))
