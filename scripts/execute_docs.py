"""Run the code of every page of the site, and write what it prints and draws into the pages: `make docs-execute`.

Code stands in fenced blocks, or in an HTML comment where it is not to be shown: `>>>` as in doctest, and `$ tiltlens …`
with what the command prints. A page runs from top to bottom in a folder of its own. Figures that it saves and shows as
`img/NAME.svg` are kept in docs/img. `tests/docs/test_pages.py` runs the same and compares, so that no page goes stale.
"""

from __future__ import annotations

import contextlib
import doctest
import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent.parent / "docs"
IMG = DOCS / "img"
BLOCK = re.compile(r"^(?:```(?P<kind>\w*)[^\n]*|<!--)\n(?P<body>.*?)^(?:```|-->)$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (?P<line>(?:[^\n]*\\\n)*[^\n]*\n)(?P<want>(?:(?!\$ )[^\n]*\n)*)", re.MULTILINE)
MISTAKE = 2  # the exit code of one
SHELL = doctest.register_optionflag("SHELL")  # of examples that are commands


def pages() -> list[Path]:
    """Return the pages that have code, in the order of their names."""
    found = [path for path in sorted(DOCS.rglob("*.md")) if "_build" not in path.parts]
    return [path for path in found if examples(path.read_text(encoding="utf-8"))]


def examples(page: str) -> list[doctest.Example]:
    """Return the page's pieces of code with what they print, in their order."""
    found = []
    for block in BLOCK.finditer(page):
        first = page.count("\n", 0, block.start("body"))
        body = block["body"]
        for one in doctest.DocTestParser().get_examples(body):
            one.lineno += first
            found.append(one)
        for command in COMMAND.finditer(body) if block["kind"] == "console" else ():
            line = first + body.count("\n", 0, command.start())
            source = f"_command({command['line'].replace(chr(92) + chr(10), ' ').strip()!r})\n"
            found.append(doctest.Example(source, command["want"], lineno=line, options={SHELL: True}))
    return sorted(found, key=lambda one: one.lineno)


def _command(line: str) -> None:
    """Print what a command of tiltlens prints, run in this process."""
    from click.testing import CliRunner

    from tiltlens._cli import main

    name, *arguments = shlex.split(line)
    if name != "tiltlens":
        raise ValueError(f"a page may run `tiltlens` only, got {line!r}: other commands stand in blocks of kind sh")
    done = CliRunner(env={"COLUMNS": "80"}).invoke(main, arguments, catch_exceptions=False)
    if done.exit_code == MISTAKE:
        raise ValueError(f"{line!r}: {done.output}")
    sys.stdout.write(done.output)


class Checker(doctest.OutputChecker):
    """Equal but for blanks at the ends of lines, which pages do not keep."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        """Return whether the two are."""
        return super().check_output(_without_blanks(want), _without_blanks(got), optionflags)


def _without_blanks(text: str) -> str:
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


class Told(doctest.DocTestRunner):
    """A runner that remembers what came out differently."""

    def __init__(self) -> None:
        super().__init__(checker=Checker(), optionflags=doctest.ELLIPSIS)
        self.got: dict[int, str] = {}

    def report_start(self, out: Any, test: Any, example: Any) -> None:
        """Say nothing."""

    def report_failure(self, out: Any, test: Any, example: doctest.Example, got: str) -> None:
        """Remember it."""
        self.got[example.lineno] = got

    def report_unexpected_exception(self, out: Any, test: Any, example: doctest.Example, error: Any) -> None:
        """Stop: the rest of the page would follow from it."""
        raise RuntimeError(f"{test.name}, line {example.lineno + 1}: {example.source}") from error[1]


def executed(path: Path, folder: Path) -> tuple[str, dict[int, tuple[str, str]]]:
    """Return the page with what its code prints, and by line what was there and what is printed now."""
    text = path.read_text(encoding="utf-8")
    todo = examples(text)
    runner = Told()
    test = doctest.DocTest(todo, {"__name__": "__main__", "_command": _command}, path.name, str(path), 0, None)
    with contextlib.chdir(folder):
        runner.run(test, out=lambda _: None, clear_globs=True)
    changed = {one.lineno: (one.want, runner.got[one.lineno]) for one in todo if one.lineno in runner.got}
    return renewed(text, todo, runner.got), changed


def renewed(text: str, todo: list[doctest.Example], got: dict[int, str]) -> str:
    """Return the page with the outputs put in the place of those that differ."""
    lines = text.splitlines(keepends=True)
    for one in sorted(todo, key=lambda one: -one.lineno):
        if one.lineno in got:
            end = one.lineno + 1
            if SHELL in one.options:
                while lines[end - 1].endswith("\\\n"):
                    end += 1
            else:
                end = one.lineno + one.source.count("\n")
            blank = "\n" if SHELL in one.options else "<BLANKLINE>\n"
            shown = _without_blanks(got[one.lineno]).splitlines(keepends=True)
            lines[end : end + one.want.count("\n")] = [line if line.strip() else blank for line in shown]
    return "".join(lines)


def pictures(path: Path, folder: Path) -> dict[str, str]:
    """Return the figures that a page saved and shows, by name."""
    shown = set(re.findall(r"\((?:\.\./)?img/([\w.-]+\.svg)\)", path.read_text(encoding="utf-8")))
    return {made.name: made.read_text(encoding="utf-8") for made in folder.glob("*.svg") if made.name in shown}


def main(names: list[str]) -> None:
    """Execute the pages that are named, or all."""
    for path in [Path(name).resolve() for name in names] or pages():
        with tempfile.TemporaryDirectory() as folder:
            text, changed = executed(path, Path(folder))
            for name, picture in pictures(path, Path(folder)).items():
                (IMG / name).write_text(picture, encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(DOCS)}: {len(changed)} outputs renewed")


if __name__ == "__main__":
    main(sys.argv[1:])
