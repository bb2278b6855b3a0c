"""Saved audits, read again: the same numbers, report, figures and comparisons; nothing that needs rows."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import polars as pl

from tiltlens.analysis import contributions as proxies
from tiltlens.analysis import error_rates, periods
from tiltlens.analysis.settings import Settings
from tiltlens.analysis.two_by_two import TwoByTwo
from tiltlens.analysis.unobserved_groups import SoftGroup
from tiltlens.errors import DataError, NeedsRowsError
from tiltlens.estimators.estimate import Estimate
from tiltlens.estimators.outputs import EqualGapsTest, EqualOutputsTest
from tiltlens.estimators.soft_groups import Calibration, Signs
from tiltlens.inputs import Input, remember
from tiltlens.learners.balance import Balance, Mismatch
from tiltlens.limits import DIAL_POSITIONS, SAVED_SLACK
from tiltlens.paper.correction import CorrectionFunction
from tiltlens.results.audit import SCHEMA, Audit
from tiltlens.results.audit_comparison import compare
from tiltlens.results.change import Change
from tiltlens.results.comparison import ALONG_SCHEMA, ESTIMATES, PLAIN, Comparison, Output, Rates
from tiltlens.results.display_units import DECILE_SCHEMA
from tiltlens.results.json_schema import misfit, published
from tiltlens.results.provenance import Provenance
from tiltlens.sources.messages import shown

AGAIN = "audit the data again with tl.audit, or `tiltlens audit`."
Made = TypeVar("Made")
Record = dict[str, Any]


def read_audit(path: str | Path) -> Audit:
    """Return the audit that `to_json`, or `tiltlens audit --json FILE`, wrote.

    It prints, reports, draws, gates and compares as the audit did, and its estimates are the same. What needs rows
    (`path`, `project`, `repair`, `alternatives`, `reweigh`, `profile`, `distribution`) raises, and so does a paired
    comparison. A file of another version, or in which parts are missing or contradict each other, is refused.

    Parameters
    ----------
    path
        The JSON file.

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
    summary = _summary(path)
    try:
        found = _audit(summary)
        _check_agreement(found, summary)
    except (AttributeError, KeyError, TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise _altered(path, str(error).partition("\n")[0] or type(error).__name__) from None
    return found


def saved_change(old: str, new: str) -> Change:
    """Return what changed between two audits that `to_json` wrote, of different rows."""
    before, after = read_audit(old), read_audit(new)
    for name in ("data_sha256", "rows_sha256"):
        found = [getattr(one.provenance, name) for one in (before, after)]
        if found[0] is not None and found[0] == found[1]:
            raise DataError(
                f"two saved audits must be of different rows, got the same {name} twice.",
                "compare two models on the same rows with `tiltlens compare DATA --scores OLD --scores NEW`.",
            )
    return compare(before, after)


def _summary(path: str | Path) -> Record:
    """Return what the file holds, which fits the published schema."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        summary = json.loads(text, parse_constant=_no_number)
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
    wrong = misfit(summary, published("audit"))
    if wrong is not None:
        raise _altered(path, wrong)
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


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _altered(path: str | Path, why: str) -> DataError:
    return DataError(f"`path` must be a whole audit as it was written, got {shown(str(path))}: {why}.", AGAIN)


class _Rows:
    """The rows that a saved audit does not hold: whatever is asked of them is refused, with the next step."""

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):  # what copies and pickles look for
            raise AttributeError(name)
        raise needs_rows(name)


def _no_rows() -> Any:
    return _Rows()


def needs_rows(asked: str) -> NeedsRowsError:
    """Return the error for what only an audit in memory can tell."""
    return NeedsRowsError(f"`{asked}` must be asked of an audit in memory, got a saved one: it holds no rows.", AGAIN)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SavedComparison(Comparison):
    """A comparison as a file has it."""

    _saved: Record

    def shares_along_dial(self, positions: int = DIAL_POSITIONS, confidence: float | None = None) -> pl.DataFrame:
        """As of `Comparison`, at the positions and of the confidence that were saved."""
        if positions != DIAL_POSITIONS or confidence not in (None, self.confidence):
            raise needs_rows("shares_along_dial at other positions, or of another confidence,")
        return pl.DataFrame(self._saved["dial_table"], schema=ALONG_SCHEMA)

    def bins(self) -> Record:
        """As of `Comparison`."""
        return copy.deepcopy(self._part("bins"))

    def prototypes(self, suppress: bool = True) -> dict[str, Record]:
        """As of `Comparison`; what was withheld cannot be told."""
        if not suppress:
            raise needs_rows("prototypes with suppress=False")
        return copy.deepcopy(self._part("prototypes"))

    def to_dict(self) -> Record:
        """As of `Comparison`."""
        return copy.deepcopy(self._saved)

    def _part(self, name: str) -> Record:
        found: Record = self._saved[name]
        return found

    def _numbers(self) -> Record:
        return copy.deepcopy({name: part for name, part in self._saved.items() if name not in OF_ROWS})

    def _audited_rows(self, asked: str) -> NoReturn:
        raise needs_rows(asked)


OF_ROWS = ("prototypes", "dial_table", "bins")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SavedAudit(Audit):
    """An audit as a file has it."""

    _saved: Record

    def to_dict(self) -> Record:
        """As of `Audit`."""
        return copy.deepcopy(self._saved)

    def repair(self, *_: Any, **__: Any) -> NoReturn:
        """Raise, as it needs rows."""
        raise needs_rows("repair")

    def _numbers(self) -> Record:
        return self.to_dict() | {"comparisons": {name: one._numbers() for name, one in self.comparisons.items()}}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SavedCorrection(CorrectionFunction):
    """A correction function as a file has it: the affine form and the paper's numbers, without moments."""

    _saved: Record

    def to_dict(self) -> dict[str, float | None]:
        """As of `CorrectionFunction`."""
        return dict(self._saved)

    def _number(self, name: str) -> float:
        self._check_binary(name)
        if self._saved[name] is None:
            raise needs_rows(name)
        return float(self._saved[name])

    @property
    def rho_m(self) -> float:
        """As of `CorrectionFunction`."""
        return self._number("rho_m")

    @property
    def a1(self) -> float:
        """As of `CorrectionFunction`."""
        return self._number("a1")

    @property
    def a2(self) -> float:
        """As of `CorrectionFunction`."""
        return self._number("a2")

    @property
    def b1(self) -> float:
        """As of `CorrectionFunction`."""
        return self._number("b1")


def _audit(summary: Record) -> SavedAudit:
    settings, rows = Settings(**summary["settings"]), _no_rows()
    origin = summary["provenance"]
    return SavedAudit(
        comparisons={name: _comparison(c, settings) for name, c in summary["comparisons"].items()},
        **{name: summary[name] for name in ("group", "reference", "channel", "favourable", "rows", "too_small")},
        settings=settings,
        provenance=Provenance(**origin | {"features": tuple(origin["features"])}),
        _rows=rows,
        _saved=summary,
    )


def _comparison(c: Record, settings: Settings) -> SavedComparison:
    """Return one comparison; the inverse of `Comparison.to_dict`."""
    rows = _no_rows()
    derived = {name for name in ESTIMATES if isinstance(getattr(Comparison, name), property)}
    estimates: Record = {name: _estimate(c[name]) for name in ESTIMATES if name not in derived}
    return SavedComparison(
        **{name: c[name] for name in PLAIN},
        **estimates,
        output=Output(*(_outputs(c["output"][who]) for who in Output._fields)),
        favourable_rates=_rates(c["favourable_rates"]),
        criterion_rates=_maybe(_rates, c["criterion_rates"]),
        decile_shares=pl.DataFrame(c["decile_shares"], schema=DECILE_SCHEMA),
        error_rates=_maybe(_error_rates, c["error_rates"]),
        periods=_maybe(_periods, c["periods"]),
        exempt=tuple(c["exempt"]),
        equal_outputs=_maybe(lambda one: EqualOutputsTest(**one), c["equal_outputs"]),
        two_by_two=_maybe(lambda one: TwoByTwo(**one | {"odds_ratio": _estimate(one["odds_ratio"])}), c["two_by_two"]),
        soft_group=_maybe(_soft_group, c["soft_group"]),
        correction=_maybe(_correction, c["correction"]),
        proxies=pl.DataFrame(c["proxies"], schema=proxies.SCHEMA),
        dial=None,
        balance=_maybe(_balance, c["balance"]),
        confidence=settings.confidence,
        notes=tuple(c["notes"]),
        _profiles=rows,
        _errors=None,
        _saved=c,
    )


def _maybe(make: Callable[[Any], Made], found: Any) -> Made | None:
    return None if found is None else make(found)


def _estimate(found: Any) -> Any:
    """Return an estimate, whose value lies within its interval."""
    if found is None:
        return None
    one = Estimate(**found)
    _check_within(one.value, one.low, one.high)
    return one


def _check_within(value: float | None, low: float | None, high: float | None) -> None:
    """Raise where a value lies outside of its interval, by more than rounding."""
    if value is None:
        return
    slack = SAVED_SLACK * max(1.0, abs(value))
    if (low is not None and low > value + slack) or (high is not None and high < value - slack):
        raise ValueError(f"the value {value} lies outside of its interval, {low} to {high}")


def _outputs(found: Any) -> Any:
    return tuple(found) if isinstance(found, list) else found


def _rates(found: Record) -> Rates:
    return Rates(*(_estimate(found[who]) for who in Rates._fields))


def _error_rates(found: Record) -> error_rates.ErrorRates:
    measured = {
        name: _maybe(lambda one: error_rates.ErrorRate(**{k: _estimate(v) for k, v in one.items()}), found[name])
        for name in error_rates.QUANTITIES
    }
    table = pl.DataFrame(found["by_decile"], schema=error_rates.DECILE_SCHEMA)
    return error_rates.ErrorRates(**measured, reasons=found["reasons"], people=found["people"], by_decile=table)


def _periods(found: Record) -> periods.PeriodTable:
    test = _maybe(lambda one: EqualGapsTest(**one), found["equal_gaps"])
    return periods.PeriodTable(pl.DataFrame(found["table"], schema=periods.SCHEMA), test)


def _soft_group(found: Record) -> SoftGroup:
    estimates = {name: _estimate(found[name]) for name in ("weighted", "linear", "limits", "bracket")}
    checked = _maybe(
        lambda one: Calibration(_estimate(one["slope"]), _estimate(one["difference"]), one["holds"]),
        found["calibration"],
    )
    sides = _maybe(lambda one: Signs(*(_estimate(one[name]) for name in Signs._fields)), found["signs"])
    return SoftGroup(**found | estimates | {"calibration": checked, "signs": sides})


def _balance(found: Record) -> Balance:
    calibration = (found["calibration"]["intercept"], found["calibration"]["slope"])
    mismatches = tuple(Mismatch(**one) for one in found["mismatches"])
    return Balance(mismatches, found["auc"], calibration, found["clipped"], tuple(found["reasons"]))


def _correction(found: Record) -> SavedCorrection:
    moments = _no_rows()
    names = ("intercept", "on_log_odds", "descent_rate", "input_weight", "output_weight")
    on_scores = [found[name] for name in found if name.startswith("on_score")]
    return SavedCorrection(
        **{name: found[name] for name in names},
        on_scores=tuple(on_scores),
        audited=moments,
        reference=moments,
        log_output_ratio=moments,
        _saved=found,
    )


def _check_agreement(found: SavedAudit, summary: Record) -> None:
    """Raise where what was understood is not what the file says."""
    plain: Record = {"settings": asdict(found.settings)}
    if json.loads(json.dumps(plain["settings"])) != summary["settings"]:
        raise ValueError("the settings are not those of an audit")
    for name, one in found.items():
        c = summary["comparisons"][name]
        if (c["audited"], c["reference"], c["channel"]) != (name, found.reference, found.channel):
            raise ValueError(f"comparisons.{name} is of other groups, or another kind of output, than it says")
        _check_numbers(c)
        again = json.loads(json.dumps(Comparison._numbers(one)))
        for part, value in again.items():
            if part not in c or c[part] != value:
                raise ValueError(f"comparisons.{name}.{part} is not as an audit writes it")


def _check_numbers(c: Record) -> None:
    """Raise where numbers contradict each other: the gap is the difference of the outputs, and lies in its band."""
    outputs = [c["output"][who] for who in Output._fields]
    if not any(isinstance(one, list) for one in outputs):
        _check_within(abs(c["gap"]["value"]), *[abs(outputs[0] - outputs[1])] * 2)
    for row in c["proxies"]:
        for name in ("gap", "joint"):
            _check_within(*(row[f"{name}{end}"] for end in ("", "_low", "_high")))
