"""What to_dict returns is what its schema says, and the schema knows every key."""

import json
from functools import cache
from importlib.resources import files

import jsonschema
import numpy as np
import polars as pl
import pytest
from tests.people import FEATURES, audited, people
from tests.render.summaries import demo
from tests.schemas import SCHEMA, strict

from tiltlens._estimators.verdicts import Verdict
from tiltlens._results.saved_audits import as_text, published


def three_classes():
    scores = np.random.default_rng(0).dirichlet([2, 3, 4], people().height)
    return audited(people(), scores=scores, favourable="2", propensity="chance")


def odd_features():
    """Return an audit of an identifier, a constant and a copy of the group."""
    rows = people(1200, 1)
    odd = rows.with_columns(id=pl.int_range(pl.len()).cast(pl.String), one=pl.lit("x"), copy=pl.col("group"))
    return audited(odd, features=[*FEATURES, "id", "one", "copy"], propensity="chance")


MAKERS = {
    "cross-fitted": lambda: audited(people()),
    "plug-in": lambda: audited(people(), folds=None, provenance={"model": "m 1"}),
    "decisions": lambda: audited(people(), threshold=0.5, propensity="chance"),
    "odd features": odd_features,
    "three classes": three_classes,
    "amounts": lambda: audited(people(), score_type="amount", propensity="chance"),
    "no output": lambda: audited(people().with_columns(score=(people()["group"] == "A").cast(float)), folds=None),
}


@cache
def written(maker):
    """Return what the JSON of an audit says."""
    return json.loads(json.dumps(MAKERS[maker]().to_dict(), allow_nan=False))


WRITE_ANEW = "types and published schemas differ: `python -m tiltlens._results.saved_audits` writes the files anew"


@pytest.mark.parametrize("maker", MAKERS)
def test_a_summary_follows_the_schema_and_has_no_other_keys(maker):
    jsonschema.Draft202012Validator(strict(SCHEMA)).validate(written(maker))


def test_the_schema_is_valid_and_refuses_other_versions():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    summary = written("plug-in") | {"schema": "tiltlens/audit/2"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(summary, SCHEMA)


@pytest.mark.parametrize("part", ["plug-in", "cross-fitted"])
def test_the_demo_follows_the_schema(part):
    summary = demo() if part == "plug-in" else demo()["cross_fitted"]
    jsonschema.validate(json.loads(json.dumps(summary, allow_nan=False)), SCHEMA)


def test_decisions_alone_have_an_adverse_impact_ratio():
    found = map(written, ("cross-fitted", "decisions"))
    ratios = {summary["score_type"]: summary["comparisons"]["A"]["adverse_impact_ratio"] for summary in found}
    assert ratios["probability"] is None
    assert 0 <= ratios["decision"]["low"] <= ratios["decision"]["value"] <= ratios["decision"]["high"] <= 1


def test_the_schema_has_the_verdicts_of_the_library():
    columns = SCHEMA["$defs"]["Comparison"]["properties"]["contributions"]["items"]["properties"]
    assert columns["verdict"]["enum"] == [verdict.value for verdict in Verdict]


@pytest.mark.parametrize("name", ["audit", "change"])
def test_the_published_file_is_that_of_the_types(name):
    text = files("tiltlens._results").joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
    assert text == as_text(published()[name]) + "\n", WRITE_ANEW
    jsonschema.Draft202012Validator.check_schema(json.loads(text))


def test_docstrings_describe_the_keys():
    keys = {name: SCHEMA["$defs"][name]["properties"] for name in ("GapParts", "Correction", "Balance")}
    assert keys["GapParts"]["band_factor"]["description"].startswith("κ")
    assert keys["Correction"]["tradeoff_table"]["description"].startswith("The share of")
    assert keys["Balance"]["is_adequate"]["description"].startswith("Whether the")
