"""The links of docs/paper_in_code.md and of the equations of docs/methods.md lead to objects and tests that exist."""

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

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


def module_of(name):
    """Return the longest part of a dotted name that is a module, and the rest."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            return importlib.import_module(".".join(parts[:cut])), parts[cut:]
        except ModuleNotFoundError:
            continue
    raise AttributeError(name)


@pytest.mark.parametrize("name", OBJECTS)
def test_every_object_named_in_the_page_exists(name):
    module, parts = module_of(name)
    reduce(getattr, parts, module)


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


def functions_of_methods():
    """Yield the names in the table of equations of docs/methods.md; `.name` is in the module of the name before."""
    for functions, _ in METHODS:
        module = ""
        for name in re.findall(r"`([\w.]+)`", functions):
            if name.startswith("."):
                yield f"{module}{name}"
            else:
                is_estimator = name.split(".")[0] not in (
                    "_rows",
                    "_learners",
                    "_analysis",
                    "paper",
                    "_repair",
                    "_results",
                )
                full = f"tiltlens.{'_estimators.' if is_estimator else ''}{name}"
                module = module_of(full)[0].__name__
                yield full


@pytest.mark.parametrize("name", sorted(set(functions_of_methods())))
def test_every_function_of_an_equation_exists(name):
    module, parts = module_of(name)
    reduce(getattr, parts, module)
    assert module.__name__.startswith("tiltlens.")


def test_every_test_of_an_equation_exists():
    written = {name for path in (ROOT / "tests").rglob("test_*.py") for name in DEFINED.findall(path.read_text())}
    named = {name for _, tests in METHODS for name in re.findall(r"`(\w+)`", tests)}
    assert named - written == set()
    assert len(named) > 40
    files = {name for _, tests in METHODS for name in re.findall(r"`(tests/[\w/]+\.py)`", tests)}
    assert [name for name in files if not (ROOT / name).is_file()] == []
