"""The links of docs/paper_in_code.md are alive: every object imports, every test exists."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "paper_in_code.md").read_text()
OBJECTS = sorted(set(re.findall(r"`(tiltlens\.[\w.]+)`", TEXT)))
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", TEXT)))


@pytest.mark.parametrize("name", OBJECTS)
def test_every_object_named_in_the_page_exists(name):
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part)
        return
    pytest.fail(f"{name} does not import")


@pytest.mark.parametrize("name", TESTS)
def test_every_test_named_in_the_page_exists(name):
    path, _, function = name.partition("::")
    source = (ROOT / path).read_text()
    assert not function or re.search(rf"^def {function}\(", source, re.MULTILINE)


def test_the_page_covers_every_numbered_item_of_the_paper():
    items = ["Lemma 1", "Theorem 1", "Theorem 2", "Corollary 1", "Corollary 2", "Example 1", "Figure 1", "Figure 2"]
    items += ["Table 1", *(f"Definition {i}" for i in range(1, 7))]
    for item in items:
        assert f"| {item}" in TEXT, item
    assert len(OBJECTS) > 15
    assert len(TESTS) > 25
