"""Gates as JUnit XML, which pipelines show beside their tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from tiltlens.gates import FIRED, OPEN, UNDEFINED, UNJUDGED, Judgement
from tiltlens.results.audit import Audit
from tiltlens.results.change import Change

# A gate that could not be evaluated is no pass: it has an element of its own.
ELEMENTS = {FIRED: "failure", UNDEFINED: "error", OPEN: "skipped", UNJUDGED: "skipped"}
COUNTED = {"failure": "failures", "error": "errors", "skipped": "skipped"}
NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def junit(result: Audit | Change, judgements: Sequence[Judgement]) -> str:
    """Return the XML of the judgements of gates on an audit, or on a change."""
    suite = ET.Element("testsuite", name=_text(f"tiltlens, {result.group}"), tests=str(len(judgements)))
    for element, count in COUNTED.items():
        suite.set(count, str(sum(ELEMENTS.get(part.status) == element for part in judgements)))
    for part in judgements:
        who = "all groups" if part.group is None else f"{part.group} against {result.reference}"
        case = ET.SubElement(suite, "testcase", classname=_text(who), name=_text(part.gate))
        if part.status in ELEMENTS:
            said = ET.SubElement(case, ELEMENTS[part.status], message=_text(part.sentence))
            said.set("type", part.status)
        else:
            ET.SubElement(case, "system-out").text = _text(part.sentence)
    every = ET.Element("testsuites")
    every.append(suite)
    ET.indent(every)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(every, encoding="unicode")}\n'


def _text(value: str) -> str:
    """Return a text without what XML has no way to write: names come from data."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", value)
