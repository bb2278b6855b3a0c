"""The published schemas of JSON, and schemas that forbid what they do not name."""

import copy
import json
from importlib.resources import files


def published(name):
    """Return a schema that is shipped, such as that of an "audit"."""
    return json.loads(files("tiltlens._results").joinpath(f"{name}.schema.json").read_text(encoding="utf-8"))


SCHEMA = published("audit")


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
