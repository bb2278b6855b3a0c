"""The links of docs/paper_in_code.md and of the equations of docs/methods.md lead to objects and tests that exist."""

import re
from pathlib import Path

import pytest
from tests.names import full_names, is_there

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "paper_in_code.md").read_text()
OBJECTS = sorted(set(re.findall(r"`(tiltlens\.[\w.]+)`", TEXT)))
METHODS = re.findall(
    r"^\| [^|]+ \| ([^|]*`[^|]*) \| ([^|]*`[^|]*) \|$",
    (ROOT / "docs" / "methods.md").read_text().partition("## 17. ")[2].partition("## 18. ")[0],
    re.MULTILINE,
)  # functions and tests of each equation
DEFINED = re.compile(r"^def test_(\w+)\(", re.MULTILINE)
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", TEXT)))


@pytest.mark.parametrize("name", OBJECTS)
def test_every_object_named_in_the_page_exists(name):
    assert is_there(name)


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


def package_of(first):
    """Return the package of a name in the table of equations, which are estimators unless another package is named."""
    return "tiltlens" if (ROOT / "src" / "tiltlens" / first).is_dir() else "tiltlens._estimators"


def test_every_function_of_an_equation_exists():
    names = [name for functions, _ in METHODS for name in full_names(functions, package_of)]
    assert [name for name in names if not is_there(name)] == []
    assert len(names) > 60


def test_every_test_of_an_equation_exists():
    written = {name for path in (ROOT / "tests").rglob("test_*.py") for name in DEFINED.findall(path.read_text())}
    named = {name for _, tests in METHODS for name in re.findall(r"`(\w+)`", tests)}
    assert named - written == set()
    assert len(named) > 40
    files = {name for _, tests in METHODS for name in re.findall(r"`(tests/[\w/]+\.py)`", tests)}
    assert [name for name in files if not (ROOT / name).is_file()] == []
