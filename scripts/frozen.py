"""Record what users can see of named results, and compare two such recordings: nothing may change unnoticed.

`python scripts/frozen.py write DIR [--only NAME …] [--huge]` writes DIR/NAME.json for the cases of `frozen_cases.py`.
`python scripts/frozen.py compare DIR OTHER [--only NAME …] [--tolerance 1e-9] [--ignore KEY …] [--tenth] [--no-text]
[--rename FILE]` prints the differences, and exits with 1 if there are any.

FILE holds {"old key": "new key"}. The keys of DIR are renamed before they are compared. An old key may be the end of a
path, such as "comparisons.*.adjusted_gap", where * is any key; a new key may be a path below the same parent, such as
"correction.descent_rate", or null, which drops the key.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
import re
import sys
import time
import warnings
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from fnmatch import fnmatch
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import tiltlens as tl
from frozen_cases import CASES, PAGES
from frozen_tables import open_folder

os.environ["SOURCE_DATE_EPOCH"] = "0"  # the time that results carry

VOLATILE = {"versions"}  # of Python and libraries: not recorded
PATH = [(1, 1, 1, 1), (1, 0, 0, 2), (2, 1, 0, 1)]
QUANTILES = [0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0]
LONGEST = 60  # an array with more entries is summarized
INLINE = {"abbr", "b", "bdi", "code", "em", "i", "strong", "sub", "sup"}
IMAGE = re.compile(r"data:image/svg\+xml;base64,([^\"]+)")


def record(result: Any, has_page: bool) -> Any:
    """Return everything that a user can see of a result, as plain values."""
    if isinstance(result, Mapping):
        return {name: record(part, has_page) for name, part in result.items()}
    if isinstance(result, list | tuple):
        return [record(part, has_page) for part in result]
    if isinstance(result, np.ndarray):
        return summarize_array(result) if result.size > LONGEST else result
    if isinstance(result, pl.DataFrame):
        return {"kinds": {name: str(kind) for name, kind in result.schema.items()}, "rows": result.to_dicts()}
    if not is_dataclass(result):
        return result
    views = {"text": str(result).splitlines(), "repr": repr(result)} | (record_views(result) if has_page else {})
    if isinstance(result, tl.Audit):
        return views | record_audit(result)
    if hasattr(result, "to_dict"):
        return views | {"summary": result.to_dict()}
    return views | {field.name: record(getattr(result, field.name), has_page=False) for field in fields(result)}


def record_views(result: Any) -> dict[str, Any]:
    """Return the text and the figures of the report page, and the HTML that notebooks show."""
    views: dict[str, Any] = {}
    if hasattr(result, "report"):
        result.report(page := StringIO())
        reader = PageReader.read(page.getvalue())
        versions = set(getattr(getattr(result, "provenance", None), "versions", {}).values())
        views["page"] = [line for line in reader.lines if line not in versions]
        views["figures"] = json.loads(reader.data)["specs"]
    if hasattr(result, "_repr_html_"):
        html = IMAGE.sub(
            lambda match: " | ".join(PageReader.read(b64decode(match[1]).decode()).lines), result._repr_html_()
        )
        views["notebook"] = html.replace("><", ">\n<").splitlines()
    return views


class PageReader(HTMLParser):
    """Collect the visible text of a page, one line per block, and its JSON data."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.data, self.hidden = "", "", ""

    @classmethod
    def read(cls, html: str) -> PageReader:
        """Return a reader that has read a page."""
        reader = cls()
        reader.feed(html)
        reader.close()
        return reader

    @property
    def lines(self) -> list[str]:
        """The visible text."""
        return [" ".join(line.split()) for line in self.text.split("\0") if line.strip()]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a line unless the element is inline."""
        if tag in ("script", "style"):
            self.hidden = "data" if ("type", "application/json") in attrs else tag
        self.text += "" if tag in INLINE else "\0"

    def handle_endtag(self, tag: str) -> None:
        """End the line unless the element is inline."""
        self.hidden = ""
        self.text += "" if tag in INLINE else "\0"

    def handle_data(self, data: str) -> None:
        """Keep visible text and JSON data."""
        if self.hidden == "data":
            self.data += data
        elif not self.hidden:
            self.text += data


def record_audit(audit: tl.Audit) -> dict[str, Any]:
    """Return the numbers of an audit: its summary and the answers to further questions."""
    summary = audit.to_dict()
    rows = {name: comparison["contributions"] for name, comparison in summary["comparisons"].items()}
    details = {name: record_details(comparison, rows[name]) for name, comparison in audit.comparisons.items()}
    return {"summary": summary, "details": details}


def record_details(comparison: tl.Comparison, summary_rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a comparison answers beyond its summary."""
    table = comparison.contributions_full
    features, rows = table["feature"].to_list(), table.to_dicts()
    kinds = {name: str(kind) for name, kind in table.schema.items()}
    return {
        "contributions": {"kinds": kinds, "rows": "as in the summary" if rows == summary_rows else rows},
        "profile": {
            name: answer(lambda name=name: comparison.correction.profile(name).to_dicts()) for name in features
        },
        "distribution": {
            name: answer(lambda name=name: record_parts(comparison.correction.distribution(name), "value"))
            for name in features
        },
        "path": answer(lambda: [record_point(point) for point in comparison.correction.path(PATH)]),
        "project": answer(lambda: record_projection(comparison.correction.project())),
        "prototypes": answer(lambda: comparison.correction.prototypes(suppress=False)),
        "shares_along_tradeoff": answer(
            lambda: record_parts(comparison.correction.shares_along_tradeoff(), "feature", as_rows=True)
        ),
    }


def answer(ask: Callable[[], Any]) -> Any:
    """Return the answer, or the library's error."""
    try:
        return ask()
    except tl.TiltlensError as error:
        return {"error": str(error)}


def record_parts(frame: pl.DataFrame, key: str, as_rows: bool = False) -> dict[str, Any]:
    """Return the rows that share a key, by that key, in their order."""
    parts = frame.partition_by(key, as_dict=True, include_key=False, maintain_order=True)
    return {str(name): part.to_dicts() if as_rows else part.to_dict(as_series=False) for (name,), part in parts.items()}


def record_point(point: Any) -> dict[str, Any]:
    """Return a point of a path with a summary of its q."""
    names = ("output", "objective", "terms", "weights", "divergence", "multipliers", "optimality_gap", "unique")
    return {"q": summarize_weights(point.q)} | {name: getattr(point, name) for name in names}


def record_projection(projection: Any) -> dict[str, Any]:
    """Return the least change with a summary of its q."""
    return {"q": summarize_weights(projection.q), "cost": projection.cost, "multipliers": projection.multipliers}


def summarize_weights(q: Any) -> dict[str, Any]:
    """Return length, sums and quantiles of weights on rows, scaled to mean 1; one sum depends on their order."""
    scaled = np.asarray(q) * len(q)
    by_place = float(np.dot(scaled, np.linspace(-1.0, 1.0, len(q)))) / len(q)
    squares = float(np.dot(scaled, scaled)) / len(q)
    quantiles = np.quantile(scaled, QUANTILES)
    return {"length": len(q), "sum": float(np.sum(q)), "squares": squares, "by_place": by_place, "quantiles": quantiles}


def summarize_array(values: Any) -> dict[str, Any]:
    """Return the shape, the first rows and a summary of the values of an array."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    return {"shape": values.shape, "first": values[:10], "all": summarize_weights(flat / flat.size)}


def make_plain(value: Any) -> Any:
    """Return a value that JSON can hold, every digit kept, without what depends on the installation."""
    if isinstance(value, Mapping):
        return {str(key): make_plain(part) for key, part in value.items() if key not in VOLATILE}
    if isinstance(value, np.ndarray | np.generic):
        return make_plain(value.tolist())
    if isinstance(value, list | tuple):
        return [make_plain(part) for part in value]
    if isinstance(value, str):
        return value.replace(open_folder().name, "FOLDER")
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def run_case(name: str) -> dict[str, Any]:
    """Return the record of a case with the warnings it gave; an error of the library; or how the library broke."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tree = record(CASES[name](), name in PAGES)
        return tree | {"warnings": sorted({str(w.message) for w in caught if w.category is UserWarning})}
    except tl.TiltlensError as error:
        return {"error": str(error)}
    except Exception as error:  # the other cases are written all the same
        return {"crash": f"{type(error).__name__}: {error}"}


def choose_names(names: Iterable[str], only: Sequence[str]) -> list[str]:
    """Return the names that fit some pattern, all names if there is no pattern."""
    return [name for name in names if not only or any(fnmatch(name, pattern) for pattern in only)]


def write(target: Path, only: Sequence[str], with_huge: bool) -> int:
    """Write the records to a folder, and return 1 if a case broke."""
    names = [name for name in choose_names(CASES, only) if with_huge or not name.startswith("huge_")]
    target.mkdir(parents=True, exist_ok=True)
    print(f"{len(names)} records by {tl.__file__}")
    start, is_broken = time.perf_counter(), not names
    for name in names:
        case_start = time.perf_counter()
        tree = make_plain(run_case(name))
        (target / f"{name}.json").write_text(json.dumps(tree, indent=0, ensure_ascii=False), encoding="utf-8")
        is_broken |= "crash" in tree
        message = tree.get("crash") or tree.get("error", "").partition("\n")[0]
        print(f"{name:32} {time.perf_counter() - case_start:6.2f} s  {message}".rstrip(), flush=True)
    print(f"{time.perf_counter() - start:.1f} s in all, {time.process_time():.1f} s on the processor")
    return int(is_broken)


MOST_LINES = 20  # printed per file
NAME_KEYS = ("feature", "name", "value")  # keys that name the records of a list
POINTS = ("value", "share")  # the estimate between "low" and "high"
MISSING = object()


class Rules(NamedTuple):
    """What counts as a difference."""

    tolerance: float
    ignored: frozenset[str]
    is_tenth: bool
    has_text: bool


def find_differences(old: Any, new: Any, rules: Rules, path: str = "", slack: float = 0.0) -> Iterator[str]:
    """Yield a line for each path at which two trees differ; numbers may do so by `slack`, and by the tolerance."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _compare_dicts(old, new, rules, path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _compare_lists(old, new, rules, path, slack)
    elif not _is_same(old, new, rules, slack):
        yield f"{path}: {_shorten(old)} | {_shorten(new)}{_write_distance(old, new)}"


def _compare_dicts(old: dict[str, Any], new: dict[str, Any], rules: Rules, path: str) -> Iterator[str]:
    slacks = _compute_slacks(old) if rules.is_tenth else {}
    for key in dict.fromkeys([*old, *new]):
        if key not in rules.ignored:
            parts = old.get(key, MISSING), new.get(key, MISSING)
            yield from find_differences(*parts, rules, f"{path}.{key}".lstrip("."), slacks.get(key, 0.0))


def _compare_lists(old: list[Any], new: list[Any], rules: Rules, path: str, slack: float) -> Iterator[str]:
    if all(isinstance(part, str) for part in (*old, *new)):
        lines = difflib.unified_diff(old, new, n=0, lineterm="") if rules.has_text else ()
        yield from (f"{path}: {line}" for line in list(lines)[2:])  # after the names of two files
        return
    named_old, named_new = _key_by_name(old), _key_by_name(new)
    if named_old and named_new:
        if rules.has_text and named_old.keys() == named_new.keys() and [*named_old] != [*named_new]:
            yield f"{path}: order {_shorten([*named_old])} | {_shorten([*named_new])}"
        for name in dict.fromkeys([*named_old, *named_new]):
            parts = named_old.get(name, MISSING), named_new.get(name, MISSING)
            yield from find_differences(*parts, rules, f"{path}[{name}]", slack)
        return
    if len(old) != len(new):
        yield f"{path}: {len(old)} entries {_shorten(old)} | {len(new)} entries {_shorten(new)}"
    for number, parts in enumerate(zip(old, new, strict=False)):
        yield from find_differences(*parts, rules, f"{path}[{number}]", slack)


def _key_by_name(records: list[Any]) -> dict[str, Any]:
    """Return records by their own names; nothing if they have none, or not different ones."""
    if not records or not all(isinstance(entry, dict) for entry in records):
        return {}
    for key in NAME_KEYS:
        named = {entry[key]: entry for entry in records if isinstance(entry.get(key), str)}
        if len(named) == len(records):
            return named
    return {}


def _compute_slacks(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return a tenth of the interval's width for each estimate of a record and for its ends."""
    slacks: dict[str, float] = {}
    for key in entry:
        for low, high in ((f"{key}_low", f"{key}_high"), ("low", "high")):
            if low in entry and high in entry and (low != "low" or key in POINTS):
                slacks |= dict.fromkeys((key, low, high), 0.1 * _compute_width(entry[key], entry[low], entry[high]))
    return slacks


def _compute_width(value: Any, low: Any, high: Any) -> float:
    """Return the width of an interval; twice the present half if one end is open."""
    if not all(_is_number(number) for number in (value, low, high)):
        ends = [end for end in (low, high) if _is_number(end)]
        return 2.0 * abs(value - ends[0]) if ends and _is_number(value) else 0.0
    return float(high - low)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_same(old: Any, new: Any, rules: Rules, slack: float) -> bool:
    if _is_number(old) and _is_number(new):
        if old == new or (math.isnan(old) and math.isnan(new)):
            return True
        return abs(old - new) <= rules.tolerance * (1.0 + max(abs(old), abs(new))) + slack < math.inf
    if isinstance(old, str) and isinstance(new, str):
        return not rules.has_text or old == new
    return type(old) is type(new) and old == new


def _shorten(value: Any) -> str:
    if value is MISSING:
        return "(missing)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}…"


def _write_distance(old: Any, new: Any) -> str:
    return f"  ({new - old:+.2g})" if _is_number(old) and _is_number(new) else ""


Renames = Mapping[str, str | None]


def rename_keys(tree: Any, renames: Renames, path: tuple[str, ...] = ()) -> Any:
    """Return a tree with other keys: see `--rename`."""
    if isinstance(tree, list):
        return [rename_keys(part, renames, path) for part in tree]
    if not isinstance(tree, dict):
        return tree
    renamed: dict[str, Any] = {}
    for key, part in tree.items():
        keys = _find_new_keys(renames, (*path, key))
        if keys:
            _insert(renamed, keys, rename_keys(part, renames, (*path, key)))
    return renamed


def _find_new_keys(renames: Renames, path: tuple[str, ...]) -> list[str]:
    """Return the new keys below the parent of the last key of a path; the longest pattern counts, none drops it."""
    for pattern in sorted(renames, key=lambda pattern: -pattern.count(".")):
        parts = pattern.split(".")
        if len(parts) <= len(path) and all(map(fnmatch, path[-len(parts) :], parts)):
            new = renames[pattern]
            return [] if new is None else new.split(".")
    return [path[-1]]


def _insert(tree: dict[str, Any], keys: Sequence[str], part: Any) -> None:
    for key in keys[:-1]:
        tree = tree.setdefault(key, {})
    before = tree.get(keys[-1])
    tree[keys[-1]] = part | before if isinstance(part, dict) and isinstance(before, dict) else part


def compare(folder: Path, other: Path, rules: Rules, only: Sequence[str], renames: Renames) -> int:
    """Print where two folders differ, and return 1 if they do."""
    names = choose_names(sorted({path.stem for each in (folder, other) for path in each.glob("*.json")}), only)
    differing = 0
    for name in names:
        lines = list(_compare_files(folder / f"{name}.json", other / f"{name}.json", rules, renames))
        differing += bool(lines)
        for line in lines[:MOST_LINES]:
            print(f"{name}: {line}")
        if len(lines) > MOST_LINES:
            print(f"{name}: … {len(lines)} differences in all")
    print(f"{len(names)} files, {differing} with differences" if names else "no files to compare")
    return int(differing > 0 or not names)


def _compare_files(old: Path, new: Path, rules: Rules, renames: Renames) -> Iterator[str]:
    absent = [str(path) for path in (old, new) if not path.is_file()]
    if absent:
        yield f"missing: {', '.join(absent)}"
        return
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (old, new))
    yield from find_differences(rename_keys(before, renames) if renames else before, after, rules)


def parse_arguments() -> argparse.Namespace:
    """Return the arguments of the command line."""
    parser = argparse.ArgumentParser(description="Record named results, and compare two such recordings.")
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write", help="run the cases and write DIR/NAME.json")
    writing.add_argument("folder", type=Path, metavar="DIR")
    writing.add_argument("--huge", action="store_true", help="also run the cases whose names begin with huge_")
    comparing = commands.add_parser(
        "compare", help="print the differences of two folders; exit with 1 if there are any"
    )
    comparing.add_argument("folder", type=Path, metavar="DIR")
    comparing.add_argument("other", type=Path, metavar="OTHER")
    comparing.add_argument("--tolerance", type=float, default=1e-9, help="absolute and relative")
    comparing.add_argument("--ignore", nargs="+", default=[], metavar="KEY", help="also KEY_low and KEY_high")
    comparing.add_argument("--tenth", action="store_true", help="estimates may differ by a tenth of their interval")
    comparing.add_argument("--no-text", action="store_true", help="do not compare texts")
    comparing.add_argument("--rename", type=Path, metavar="FILE", help='JSON: {"old key": "new key"} for DIR')
    for command in (writing, comparing):
        command.add_argument("--only", nargs="+", default=[], metavar="NAME", help="or patterns such as 'kinds_*'")
    return parser.parse_args()


def main() -> int:
    """Run the command, and return its exit code."""
    options = parse_arguments()
    if options.command == "write":
        return write(options.folder, options.only, options.huge)
    ignored = frozenset(f"{key}{end}" for key in options.ignore for end in ("", "_low", "_high"))
    rules = Rules(options.tolerance, ignored, options.tenth, not options.no_text)
    renames = json.loads(options.rename.read_text(encoding="utf-8")) if options.rename else {}
    return compare(options.folder, options.other, rules, options.only, renames)


if __name__ == "__main__":
    sys.exit(main())
