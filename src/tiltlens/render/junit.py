"""Gates as JUnit XML, which pipelines show beside their tests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

# A gate that could not be evaluated is no pass: it has an element of its own.
ELEMENTS = {"fired": "failure", "not defined": "error", "undecided": "skipped", "not evaluated": "skipped"}
COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}
NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def junit(summary: Mapping[str, Any], judged: Sequence[Mapping[str, Any]]) -> str:
    """Return the XML of what gates said (`gate`, `group`, `status`, `sentence`) of an audit, or of a change."""
    suite = ET.Element("testsuite", name=_text(f"tiltlens, {summary['group']}"), tests=str(len(judged)))
    for element, count in COUNTED.items():
        suite.set(count, str(sum(ELEMENTS.get(one["status"]) == element for one in judged)))
    for one in judged:
        who = "all groups" if one["group"] is None else f"{one['group']} against {summary['reference']}"
        case = ET.SubElement(suite, "testcase", classname=_text(who), name=_text(one["gate"]))
        if one["status"] in ELEMENTS:
            said = ET.SubElement(case, ELEMENTS[one["status"]], message=_text(one["sentence"]))
            said.set("type", one["status"])
        else:
            ET.SubElement(case, "system-out").text = _text(one["sentence"])
    every = ET.Element("testsuites")
    every.append(suite)
    ET.indent(every)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(every, encoding="unicode")}\n'


def _text(value: str) -> str:
    """Return a text without what XML has no way to write: names come from data."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)
