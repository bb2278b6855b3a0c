"""What to_dict returns is what its schema says, and the schema knows every key."""

import copy
import json
from importlib.resources import files

import jsonschema
import numpy as np
import pytest
from tests.test_audit_engines import audited, people

SCHEMA = json.loads(files("tiltlens.views").joinpath("audit.schema.json").read_text(encoding="utf-8"))


def strict(schema):
    """Return the schema with every key that it does not name forbidden."""
    closed = copy.deepcopy(schema)
    waiting = [closed]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "properties" in part and "additionalProperties" not in part:
                part["additionalProperties"] = False
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return closed


def three_classes():
    scores = np.random.default_rng(0).dirichlet([2, 3, 4], people().height)
    return audited(people(), scores=scores, favourable="2", membership="chance")


MAKERS = {
    "cross-fitted": lambda: audited(people(1200, 1)),
    "plug-in": lambda: audited(people(), folds=None, provenance={"model": "m 1"}),
    "three classes": three_classes,
    "no output": lambda: audited(people().with_columns(score=(people()["group"] == "A").cast(float)), folds=None),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_summary_follows_the_schema_and_has_no_other_keys(maker):
    summary = json.loads(json.dumps(MAKERS[maker]().to_dict(), allow_nan=False))
    jsonschema.Draft202012Validator(strict(SCHEMA)).validate(summary)


def test_the_schema_is_valid_and_refuses_other_versions():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    summary = json.loads(json.dumps(MAKERS["plug-in"]().to_dict())) | {"schema": "tiltlens/audit/2"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(summary, SCHEMA)
