"""Every result is read back from its JSON as it was; what does not fit is refused with its path."""

import json
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from functools import cache
from typing import Annotated, ClassVar, NamedTuple, TypedDict

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from polars.testing import assert_frame_equal
from tests.results.test_saved_audits import KINDS, audited

import tiltlens as tl
from tiltlens._analysis.evidence import Settings
from tiltlens._estimators.estimate import Estimate
from tiltlens._notes import Note
from tiltlens._results.codec import from_plain, to_plain
from tiltlens.errors import DataError
from tiltlens.paper.checks import Floats

SCHEMA = {"feature": pl.String, "gap": pl.Float64, "n": pl.Int64}


class Mood(StrEnum):
    GOOD = "good"
    BAD = "bad"


class Pair(NamedTuple):
    audited: Estimate
    reference: Estimate | None


class Bin(TypedDict, total=False):
    share: float | None
    counts: list[int | None]


@dataclass(frozen=True)
class Result:
    name: str
    pairs: tuple[Pair, ...]
    moods: dict[str, Mood]
    output: float | tuple[float, ...]
    bins: list[Bin]
    table: Annotated[pl.DataFrame, SCHEMA, {"feature": Annotated[str, "its name"]}]
    is_sure: bool
    _rows: "Missing" = None  # noqa: F821, RUF100

    JSON_PROPERTIES: ClassVar = ("size",)

    @property
    def size(self) -> int:
        return len(self.pairs)


def assert_same(one, other):
    """Assert that a result that was read holds the same as another; private parts and codes of notes are not saved."""
    assert type(one) is (str if isinstance(other, Note) else type(other))
    if isinstance(one, pl.DataFrame):
        assert_frame_equal(one, other)
    elif is_dataclass(one) and not isinstance(one, Estimate):
        for field in fields(one):
            if not field.name.startswith("_"):
                assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for name in one:
            assert_same(one[name], other[name])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for pair in zip(one, other, strict=True):
            assert_same(*pair)
    else:
        assert one == other


def there_and_back(result):
    return from_plain(type(result), json.loads(json.dumps(to_plain(result), allow_nan=False)))


numbers, ends = st.floats(allow_nan=False, allow_infinity=False), st.none() | st.floats(-1, 1)
estimates = st.builds(Estimate, numbers, ends, ends)
results = st.builds(
    Result,
    name=st.text(),
    pairs=st.lists(st.builds(Pair, estimates, st.none() | estimates)).map(tuple),
    moods=st.dictionaries(st.text(), st.sampled_from(Mood)),
    output=numbers | st.lists(numbers).map(tuple),
    bins=st.lists(st.fixed_dictionaries({"share": ends}, optional={"counts": st.lists(st.none() | st.integers())})),
    table=st.lists(st.tuples(st.text(), ends, st.none() | st.integers(-(2**63), 2**63 - 1))).map(
        lambda rows: pl.DataFrame(rows, SCHEMA, orient="row")
    ),
    is_sure=st.booleans(),
)


@given(results)
def test_what_is_written_is_read_back(result):
    assert_same(there_and_back(result), result)


@cache
def parts(kind):
    """Return the results that an audit, or the comparison of two, is made of."""
    c = audited(kind)["women"]
    found = [audited(kind).settings, audited(kind).provenance, c.correction.parts(), c.gap, c.outputs, c.scale]
    found += [c.gap_parts, c.checks.balance, c.error_rates, c.periods, c.decision_table, c.unobserved_group, c.gap_test]
    change = tl.compare(audited(kind), audited(kind), paired=False)
    return [getattr(one, "disclosed", lambda one=one: one)() for one in (*found, change) if one is not None]


@pytest.mark.parametrize("kind", KINDS)
def test_every_result_of_an_audit_is_read_back(kind):
    for result in parts(kind):
        assert_same(there_and_back(result), result)


def test_every_type_of_result_is_among_them():
    names = {type(result).__name__ for kind in KINDS for result in parts(kind)}
    expected = {"Settings", "Provenance", "CorrectionParts", "Estimate", "Outputs", "Scale", "GapParts", "Balance"}
    assert names == expected | {
        "ErrorRates",
        "PeriodTable",
        "DecisionTable",
        "UnobservedGroup",
        "EqualOutputsTest",
        "Change",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_an_audit_is_read_back(kind):
    audit = audited(kind).disclosed()
    again = there_and_back(audit)
    assert to_plain(again) == json.loads(json.dumps(to_plain(audit)))
    for field in fields(audit["women"]):
        if field.name not in ("correction", "checks", "unobserved_group", "_errors"):
            assert_same(getattr(again["women"], field.name), getattr(audit["women"], field.name))


def test_no_plain_data_holds_a_python_type():
    plain = to_plain(audited("probabilities"))
    assert type(plain["score_type"]) is str
    assert not isinstance(plain["comparisons"]["women"]["unobserved_group"]["status"], Enum)


PLAIN = to_plain(
    Result(
        "a", (Pair(Estimate(1.0), None),), {"x": Mood.GOOD}, (1.0,), [{"share": 0.5, "counts": [1]}], *(
            pl.DataFrame([("age", 1.0, 2)], SCHEMA, orient="row"), True,
        )
    )
)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.pop("name"), "result.name: missing"),
        (lambda p: p["pairs"][0].pop("reference"), r"result.pairs\[0\].reference: missing"),
        (lambda p: p["pairs"][0]["audited"].update(low="x"), r"pairs\[0\].audited.low: expected a number, got text"),
        (lambda p: p["pairs"][0].update(reference=3), r"pairs\[0\].reference: expected an object, got a number"),
        (lambda p: p["moods"].update(x="odd"), r"moods.x: expected one of .*, got 'odd'"),
        (lambda p: p.update(output="x"), "result.output: expected a list, got text"),
        (lambda p: p["bins"][0].update(counts=[1.5]), r"bins\[0\].counts\[0\]: expected a whole number, got a number"),
        (lambda p: p["table"][0].update(n="x"), r"table\[0\].n: expected a whole number, got text"),
        (lambda p: p["table"][0].update(feature=None), r"table\[0\].feature: expected text, got null"),
        (lambda p: p["table"][0].pop("gap"), r"table\[0\].gap: missing"),
        (lambda p: p.update(table={}), "table: expected a list, got an object"),
        (lambda p: p.update(is_sure=1), "is_sure: expected true or false, got a number"),
        (lambda p: p.update(size=True), "size: expected a whole number, got true or false"),
        (lambda p: p.update(size=2), "result.size: contradicts the other values"),
        (lambda p: p["pairs"][0]["audited"].update(low=float("inf")), "audited.low: expected a finite number, got inf"),
        (lambda p: p["pairs"][0]["audited"].update(low=10**400), "audited.low: expected a finite number"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(change, message):
    plain = json.loads(json.dumps(PLAIN))
    change(plain)
    with pytest.raises(DataError, match=message):
        from_plain(Result, plain, "result")


def test_other_keys_are_left_out_and_results_check_themselves():
    assert_same(from_plain(Result, PLAIN | {"added": 3}), from_plain(Result, PLAIN))
    with pytest.raises(ValueError, match="`confidence` must"):
        from_plain(Settings, to_plain(Settings()) | {"confidence": 3})


class Grid(NamedTuple):
    edges: Floats
    kinds: NDArray[np.str_]
    ends: tuple[float, float]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"edges": [0.5, None]}, "edges: expected a list of numbers"),
        ({"edges": [0.5, float("nan")]}, "edges: expected a list of numbers"),
        ({"edges": [0.5, "1"]}, "edges: expected a list of numbers"),
        ({"edges": [[0.5], []]}, "edges: expected lists of equal length"),
        ({"kinds": [1]}, "kinds: expected a list of texts"),
        ({"ends": [0.0]}, "ends: expected 2 entries, got 1"),
    ],
)
def test_arrays_and_pairs_are_whole(part, message):
    plain = {"edges": [0.5, 1], "kinds": ["a"], "ends": [0, 1.0]}
    assert from_plain(Grid, plain).ends == (0.0, 1.0)
    with pytest.raises(DataError, match=message):
        from_plain(Grid, plain | part)
