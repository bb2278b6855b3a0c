"""Saved audits, as far as two of them can be compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tiltlens.engines.messages import shown
from tiltlens.errors import DataError
from tiltlens.results.audit import SCHEMA
from tiltlens.results.change import Change
from tiltlens.results.two_audits import Side, change_of

NEEDED = ("group", "reference", "channel", "favourable", "rows", "settings", "provenance", "comparisons")


def saved_change(old: str, new: str) -> Change:
    """Return what changed between two audits that `to_json` wrote, of different rows."""
    before, after = (Side(_checked(path, _read(path)), {}) for path in (old, new))
    _check_other_rows(before, after)
    return change_of(before, after, is_paired=False)


def _read(path: str) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"a saved audit must be a file that can be read, got {path!r}: {error.strerror}.") from None
    except ValueError:
        raise DataError(
            f"a saved audit must be JSON, got {path!r}.", "write one with `tiltlens audit … --json FILE`."
        ) from None


def _checked(path: str, summary: Any) -> dict[str, Any]:
    schema = summary.get("schema") if isinstance(summary, dict) else None
    if not isinstance(summary, dict) or schema != SCHEMA or any(name not in summary for name in NEEDED):
        raise DataError(
            f"a saved audit must be of the schema {SCHEMA!r}, got {shown(schema)} in {path!r}.",
            "audit the data again with this version.",
        )
    return summary


def _check_other_rows(old: Side, new: Side) -> None:
    """Raise where two saved audits are of the same rows: they are not independent."""
    for name in ("data_sha256", "rows_sha256"):
        found = [one.summary["provenance"].get(name) for one in (old, new)]
        if found[0] is not None and found[0] == found[1]:
            raise DataError(
                f"two saved audits must be of different rows, got the same {name} twice.",
                "compare two models on the same rows with `tiltlens compare DATA --scores OLD --scores NEW`.",
            )
