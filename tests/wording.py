"""What people read, checked once and whole: `wording.txt` holds the messages and sentences of tests, by test.

`WRITE_WORDING=1 python -m pytest -n 0 tests/…` writes those of the tests that ran anew; read what changed.
"""

import os
import re
from functools import cache
from pathlib import Path
from string import Formatter

from tiltlens._notes import SENTENCES

FILE = Path(__file__).parent / "wording.txt"
_written = {}


@cache
def recorded():
    """Return the texts of the file by test and number."""
    texts, name = {}, None
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("tests/"):
            name = line
            texts[name] = []
        elif line:
            texts[name].append(line[2:])
    return {name: "\n".join(lines) for name, lines in texts.items()}


def expected(test, number, text):
    """Return the text that a test recorded under a number; while the file is written, the text itself."""
    name = f"{test} {number}"
    if not os.environ.get("WRITE_WORDING"):
        return recorded().get(name, "")
    _written[name] = text
    return text


def without_accidents(text, folder):
    """Return a text without what other runs and other versions of libraries write in another way."""
    text = re.sub(re.escape(folder) + r"/[^/']*|0x[0-9a-f]{8,}", "…", text)  # the folder of a test, an address
    return re.sub(r"(\b[A-Z]\w*(?:Error|Protobuf)): .*", r"\1: …", text)  # an error of a library


def write():
    """Write what the tests of this run recorded, in place of what they recorded before."""
    if not _written:
        return
    tests = {_function(name) for name in _written}
    texts = {name: text for name, text in recorded().items() if _function(name) not in tests} | _written
    blocks = (name + "".join(f"\n  {line}" for line in text.split("\n")) for name, text in sorted(texts.items()))
    FILE.write_text("\n".join(blocks) + "\n", encoding="utf-8")


def _function(name):
    return name.rpartition(" ")[0].partition("[")[0]


def code_of(sentence):
    """Return the code of the note whose sentence this is: of several, the one with the most words of its own."""
    codes = [code for code, (_, pattern) in _patterns().items() if re.fullmatch(pattern, sentence)]
    return max(codes, key=lambda code: _patterns()[code][0], default=None)


@cache
def _patterns():
    """Return by code how many letters of its own a sentence has, and a pattern of the whole."""
    parts = {code: list(Formatter().parse(sentence)) for code, sentence in SENTENCES.items()}
    own = {code: sum(len(text) for text, *_ in parts) for code, parts in parts.items()}
    return {
        code: (own[code], "".join(re.escape(text) + ("(?s:.*)" if name else "") for text, name, *_ in parts[code]))
        for code in parts
        if own[code]
    }
