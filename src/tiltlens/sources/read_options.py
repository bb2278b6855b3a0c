"""Options for reading files and databases, and `tl.read`, which attaches them to a path."""

from __future__ import annotations

import codecs
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from tiltlens.errors import DataError
from tiltlens.sources.messages import listed, shown, texts_of

WHERE = {  # each option, and the data to which it applies
    "na_values": "CSV files",
    "encoding": "CSV files",
    "decimal": "CSV and Excel files",
    "sheet": "Excel files",
    "query": "databases",
}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading data that cannot describe themselves.

    Attributes
    ----------
    na_values
        Texts that mark missing values in CSV files, in addition to the usual ones.
    encoding
        Encoding of CSV files, such as "cp1252"; None for UTF-8, or for that of a byte order mark.
    decimal
        Decimal mark of numbers in CSV files and in text cells of Excel, "." or ",".
    sheet
        Sheet of an Excel file.
    query
        SQL query on a database.
    """

    na_values: tuple[str, ...] = ()
    encoding: str | None = None
    decimal: str = "."
    sheet: str | None = None
    query: str | None = None

    def check_for(self, kind: str, allowed: Sequence[str]) -> None:
        """Raise for an option that does not apply to data of this kind."""
        defaults = ReadOptions()
        for name, owners in WHERE.items():
            value = getattr(self, name)
            if value != getattr(defaults, name) and name not in allowed:
                got = listed(value) if isinstance(value, tuple) else shown(value)
                hint = "replace them in the data." if name == "na_values" else "leave it out."
                raise DataError(f"`{name}` must be left out for {kind}, got {got}.", f"it is for {owners}: {hint}")


@dataclass(frozen=True, slots=True)
class Source:
    """Files or a database, with the options for reading them."""

    path: object = field(repr=False)  # the URL of a database may hold a password
    options: ReadOptions

    @classmethod
    def of(cls, data: object) -> Source:
        """Return any data as a source; all but a source is read with default options."""
        return data if isinstance(data, Source) else cls(data, ReadOptions())


def read(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    na_values: str | Sequence[str] | None = None,
    encoding: str | None = None,
    decimal: str = ".",
    sheet: str | None = None,
    query: str | None = None,
) -> Source:
    r"""Return files or a database as a source that is read with the given options.

    Pass the source wherever tiltlens takes data: `tl.audit`, `tl.alternatives`, `tl.rule_tables`, `ScoreTilt.apply` and
    `ScoreTilt.evaluate`. Data that need no options can be passed as they are. No row is read before the source is used.

    Parameters
    ----------
    path : str, path-like, or list of these
        A file, a pattern such as ``"data/*.csv"``, a folder, a list of these, or the URL of a database such as
        ``"sqlite:///people.db"``.
    na_values : str or list of str, default=None
        Texts that mark missing values in CSV files, in addition to "", "?", "-", ".", "NA", "N/A", "NaN" and "NULL".
    encoding : str, default=None
        Encoding of CSV files, such as "cp1252". None reads UTF-8, or what the byte order mark says.
    decimal : {".", ","}, default="."
        Decimal mark of numbers in CSV files and in text cells of Excel.
    sheet : str, default=None
        Sheet of an Excel file. It is required if the file has several.
    query : str, default=None
        SQL query that selects the rows of a database. It is required for a database.

    Returns
    -------
    Source
        The path with its options.

    Raises
    ------
    DataError
        If `path` is not the name of files or of a database, or an option is not valid.

    See Also
    --------
    audit : Audit a model on a source.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tiltlens as tl
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("sex,hired\n" + 20 * "women,0\nwomen,1\nmen,1\nmen,unknown\n")
    ...     people = tl.read(path, na_values="unknown")
    ...     tl.rule_tables(people, "four-fifths", "sex", selected="hired").rows["missing_outcome"]
    20
    """
    entries = path if isinstance(path, (list, tuple)) else [path]
    if not entries or not all(isinstance(entry, (str, os.PathLike)) for entry in entries):
        raise DataError(
            f"`path` must name files or a database, got {type(path).__name__}.",
            "pass a table in memory to tiltlens without tl.read.",
        )
    return Source(path, _checked_options(na_values, encoding, decimal, sheet, query))


def _checked_options(
    na_values: str | Sequence[str] | None, encoding: str | None, decimal: str, sheet: str | None, query: str | None
) -> ReadOptions:
    """Return the options after checking them."""
    texts = tuple(texts_of("na_values", na_values))
    strangers = [text for text in texts if not isinstance(text, str)]
    if strangers:
        raise DataError(f"`na_values` must be texts, got {shown(strangers[0])}.", "as written in the file: '-9'.")
    for name, value in (("sheet", sheet), ("query", query)):
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise DataError(f"`{name}` must be a text, got {shown(value)}.", f"it is for {WHERE[name]}.")
    if decimal not in (".", ","):
        raise DataError(
            f"`decimal` (--decimal) must be '.' or ',', got {shown(decimal)}.", "it is the decimal mark of numbers."
        )
    return ReadOptions(texts, None if encoding is None else _known_encoding(encoding), decimal, sheet, query)


def _known_encoding(name: str) -> str:
    """Return Python's name of an encoding of texts."""
    try:
        io.TextIOWrapper(io.BytesIO(), encoding=name)  # not so "hex" and such, which are codecs, but of bytes
        return codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        raise DataError(
            f"`encoding` must be the name of an encoding, got {shown(name)}.",
            "for example 'cp1252' (Windows, Western Europe), 'latin-1', 'utf-16' or 'shift-jis'.",
        ) from None
