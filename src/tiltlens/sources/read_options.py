"""How files and databases are to be read, where they cannot say it themselves."""

from __future__ import annotations

import codecs
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiltlens.errors import DataError
from tiltlens.sources.messages import listed, shown, texts_of

WHERE = {  # an option, and whose it is
    "na_values": "CSV files",
    "encoding": "CSV files",
    "sheet": "Excel files",
    "query": "databases",
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a user says of the data beside its name.

    Attributes
    ----------
    na_values
        Texts that stand for missing values in CSV files, beside the usual ones.
    encoding
        Of CSV files, such as "cp1252"; None where it is to be found out.
    sheet
        Of an Excel file.
    query
        SQL, of a database.
    """

    na_values: tuple[str, ...] = ()
    encoding: str | None = None
    sheet: str | None = None
    query: str | None = None

    def check_for(self, kind: str, allowed: Sequence[str]) -> None:
        """Raise for an option that says nothing of data of this kind."""
        for name, owners in WHERE.items():
            value = getattr(self, name)
            if value and name not in allowed:
                got = listed(value) if isinstance(value, tuple) else shown(value)
                hint = "replace them in the data." if name == "na_values" else "leave it out."
                raise DataError(f"`{name}` must be left out for {kind}, got {got}.", f"it is for {owners}: {hint}")


def read_options(na_values: Any = None, encoding: Any = None, sheet: Any = None, query: Any = None) -> ReadOptions:
    """Return the options as they were asked for, checked."""
    texts = tuple(texts_of("na_values", na_values))
    strangers = [text for text in texts if not isinstance(text, str)]
    if strangers:
        raise DataError(f"`na_values` must be texts, got {shown(strangers[0])}.", "as they stand in the file: '-9'.")
    for name, value in (("sheet", sheet), ("query", query)):
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise DataError(f"`{name}` must be a text, got {shown(value)}.", f"it is for {WHERE[name]}.")
    return ReadOptions(texts, None if encoding is None else _known_encoding(encoding), sheet, query)


def _known_encoding(name: Any) -> str:
    """Return Python's name of an encoding of texts."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=name)  # not so "hex" and such, which are codecs, but of bytes
        return codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        raise DataError(
            f"`encoding` must be the name of an encoding, got {shown(name)}.",
            "for example 'cp1252' (Windows, Western Europe), 'latin-1', 'utf-16' or 'shift-jis'.",
        ) from None
