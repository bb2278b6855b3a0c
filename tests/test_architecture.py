"""The map of ARCHITECTURE.md is the tree of src/tiltlens, and the tree keeps to its bounds."""

import ast
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from scripts.touched import measure
from tests.names import full_names, is_there

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tiltlens"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "src/tiltlens/_render/README.md")
MOST_AT_TOP = 11
MOST_LINES = 500
MOST_PAGE_LINES = 160
HEAVY = {  # packages that take long to import, or that need not be installed
    *("altair", "fastexcel", "jinja2", "markupsafe", "polars", "pyarrow", "pyspark"),
    *("scipy", "sklearn", "skops", "sqlite3", "vl_convert", "xlsxwriter", "yaml"),
}


def mapped_packages(page: str = PAGE) -> set[str]:
    """Return the packages that open a line of the map."""
    block = re.search(r"## The packages.*?```\n(.*?)```", page, re.DOTALL)
    assert block is not None, "the page has no map"
    return set(re.findall(r"^(\w+)/\s", block[1], re.MULTILINE))


def test_the_map_names_every_package_and_no_other():
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert mapped_packages() == packages | {"tiltlens"}


def test_a_package_missing_on_the_map_would_be_seen():
    assert "_learners" not in mapped_packages(PAGE.replace("\n_learners/ ", "\n          "))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_the_first_line_of_a_module_says_what_it_is_for(path):
    docstring = ast.get_docstring(ast.parse(path.read_text()))
    assert docstring is not None
    assert 10 < len(docstring.splitlines()[0]) <= 120


def package_of(first: str) -> str | None:
    """Return the package of a part of tiltlens, and of a private name that might be one."""
    is_part = (SOURCE / first).is_dir() or (SOURCE / f"{first}.py").is_file()
    return "tiltlens" if is_part or first.startswith("_") else None


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_names_exists(page):
    """Dotted names in backticks are modules of tiltlens or definitions in them; those with a slash or suffix, files.

    Single names with a capital or an underscore occur in the code.
    """
    folders = (ROOT, SOURCE, (ROOT / page).parent)
    text = (ROOT / page).read_text()
    names = list(full_names(text, package_of))
    assert [name for name in names if not is_there(name)] == []
    files = re.findall(r"`([\w.]+/[\w./]*|[\w/]+\.(?:py|md|json|toml|txt|css|html))`", text)
    assert [name for name in files if not any((folder / name).exists() for folder in folders)] == []
    assert len(files) > 10
    code = "\n".join(path.read_text() for folder in (SOURCE, ROOT / "tests") for path in folder.rglob("*.py"))
    single_names = re.findall(r"`(\w*[A-Z_]\w*)[`(]", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    assert [name for name in single_names if not re.search(rf"\b{name}\b", code)] == []


def test_a_name_that_is_not_there_would_be_seen():
    text = (
        "`_rows.sampled_rows.SampledRows.take`, `.read_batch(…)`, `.give`; `_rows.no_such_module`, `np.dot`, `roles.py`"
    )
    names = list(full_names(text, package_of))
    assert [is_there(name) for name in names] == [True, True, False, False]
    assert [name.rpartition(".")[2] for name in names] == ["take", "read_batch", "give", "no_such_module"]


def test_modules_are_private_unless_the_reference_lists_them():
    reference = (ROOT / "docs" / "api.md").read_text()
    for path in MODULES:
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if not any(part.startswith("_") for part in parts):
            assert parts[0] == "errors" or f"   {parts[0]}." in reference, path


VAGUE = {"asked", "carried", "found", "known", "one", "place", "told"}


def names_given(path: Path) -> Iterator[str]:
    """Yield the names of variables, parameters, functions and classes that a module defines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def test_names_say_what_they_hold():
    names = [(path.name, name) for path in MODULES for name in names_given(path)]
    assert len(names) > 1_000
    assert [(path, name) for path, name in names if name.strip("_") in VAGUE] == []


def test_an_audit_and_its_printing_run_through_few_modules():
    touched = {heading: len(modules) for heading, modules in measure()}
    assert 20 < touched["tl.audit"] <= 50
    assert 5 < touched["print(audit)"] <= 15


def test_few_modules_stand_at_the_top():
    names = sorted(path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__"))
    assert len(names) <= MOST_AT_TOP, names


def test_a_file_can_be_read_in_one_sitting():
    lines = {path.relative_to(SOURCE).as_posix(): len(path.read_text().splitlines()) for path in MODULES}
    too_long = {name: count for name, count in lines.items() if count > MOST_LINES}
    assert not too_long


def test_the_page_can_be_read_in_one_sitting():
    assert len(PAGE.splitlines()) <= MOST_PAGE_LINES


def dotted(path: Path) -> str:
    """Return the name by which a module is imported."""
    return ".".join(["tiltlens", *path.relative_to(SOURCE).with_suffix("").parts])


def imports_inside_functions(path: Path) -> Iterator[str]:
    """Yield the names of the modules that functions of a module import."""
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield node.module


def test_only_listed_delegations_and_heavy_packages_are_imported_inside_functions():
    """pytest and MLflow load `_integrations` whether or not they are used, so its functions import what they use."""
    (layers,) = (
        contract
        for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    stray = [
        edge
        for path in sorted(SOURCE.rglob("*.py"))
        for imported in imports_inside_functions(path)
        if (edge := f"{dotted(path)} -> {imported}")
        and imported.partition(".")[0] not in HEAVY
        and not any(fnmatchcase(edge, delegation) for delegation in layers["ignore_imports"])
    ]
    assert [edge for edge in stray if not edge.startswith("tiltlens._integrations.")] == []


@pytest.mark.parametrize("folder", ["benchmarks", "scripts"])
def test_what_is_run_by_hand_uses_names_that_exist(folder):
    names = [
        f"{node.module}.{name.name}"
        for path in (ROOT / folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] in ("tiltlens", "benchmarks")
        for name in node.names
    ]
    assert names
    assert [name for name in names if not is_there(name)] == []
