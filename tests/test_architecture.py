"""The map of ARCHITECTURE.md is the tree of src/tiltlens, and the tree keeps to its bounds."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "tiltlens"
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
MOST_AT_TOP = 9
MOST_LINES = 450
MOST_PAGE_LINES = 160
TOP = "tiltlens/"


def mapped_modules(page: str = PAGE) -> list[str]:
    """Return the modules that the map names, each `name: phrase` after the line that opens its room."""
    block = re.search(r"## The rooms.*?```\n(.*?)```", page, re.DOTALL)
    assert block is not None, "the page has no map"
    found, room = [], ""
    for line in block[1].splitlines():
        opened = re.match(r"([\w/]+/)\s", line)
        if opened is not None:
            room = "" if opened[1] == TOP else opened[1]
        text = line[opened.end() :] if opened is not None else line
        found += [f"{room}{name}.py" for name in re.findall(r"(?:^|·)\s*([a-z_0-9]+): ", text)]
    return found


def test_the_map_names_every_module():
    missing = {path.relative_to(SOURCE).as_posix() for path in MODULES} - set(mapped_modules())
    assert not missing, f"not on the map of ARCHITECTURE.md: {sorted(missing)}"


def test_the_map_names_no_module_that_does_not_exist():
    strangers = set(mapped_modules()) - {path.relative_to(SOURCE).as_posix() for path in MODULES}
    assert not strangers, f"on the map of ARCHITECTURE.md, but not in the tree: {sorted(strangers)}"


def test_the_map_names_each_module_once():
    names = mapped_modules()
    assert sorted(set(names)) == sorted(names)


def test_a_map_with_a_stranger_or_a_gap_would_be_seen():
    changed = PAGE.replace("survey: pass 1", "surveyor: pass 1")
    assert "passes/surveyor.py" in mapped_modules(changed)
    assert "passes/survey.py" not in mapped_modules(changed)


def test_the_page_names_functions_and_tests_that_exist():
    """Dotted names in backticks are modules of tiltlens or objects in them, paths in backticks are files."""
    for name in re.findall(r"`((?:audit|engines|estimators|models|passes|results)\.\w[\w.]+)[(`]", PAGE):
        *parts, last = name.split(".")
        if (SOURCE / "/".join([*parts, f"{last}.py"])).is_file():
            continue
        source = SOURCE / f"{'/'.join(parts)}.py"
        assert source.is_file(), name
        assert re.search(rf"^\s*(?:def|class) {last}\b", source.read_text(), re.MULTILINE), name
    for name in re.findall(r"`((?:tests|docs|engines|models|passes|paper|views)/[\w/]+\.\w+)`", PAGE):
        assert (ROOT / name).is_file() or (SOURCE / name).is_file(), name


def test_few_modules_stand_at_the_top():
    names = sorted(path.name for path in SOURCE.glob("*.py") if not path.name.startswith("__"))
    assert len(names) <= MOST_AT_TOP, names


def test_a_file_can_be_read_in_one_sitting():
    lines = {path.relative_to(SOURCE).as_posix(): len(path.read_text().splitlines()) for path in MODULES}
    too_long = {name: count for name, count in lines.items() if count > MOST_LINES}
    assert not too_long


def test_the_page_can_be_read_in_one_sitting():
    assert len(PAGE.splitlines()) <= MOST_PAGE_LINES
