"""Options of commands have the names of the keywords of the functions that they call."""

import inspect

import click
import pytest
from click.testing import CliRunner

import tiltlens as tl
from tiltlens._cli import main
from tiltlens._sources.text_columns import ReadOptions

SPELLINGS = {"favorable": "a spelling of --favourable"}
NOT_OPTIONS = {
    "audit": SPELLINGS | {"data": "the argument DATA", "progress": "a bar is shown if standard error is a terminal"},
    "rule": SPELLINGS | {"data": "the argument DATA"},
    "repair": {"propensity_model": "a Python object that no file format of models holds unfitted"},
    "alternatives": {"data": "the argument DATA", "options": "those of tl.audit"},
}
BEYOND_AUDIT = {  # options of `tiltlens audit` that are not keywords of tl.audit
    "group_probability": "a dict for `group`",
    "trusted": "a keyword of tl.load_model",
    **dict.fromkeys(("json", "report", "tables", "junit"), "files to write"),
    "fail_if": "gates",
    **dict.fromkeys(ReadOptions.__slots__, "keywords of tl.read"),
}
CALLED = {
    "audit": tl.audit,
    "rule": tl.rule_tables,
    "repair": tl.Comparison.repair,
    "alternatives": tl.alternatives,
}


def command(name):
    return main.get_command(click.Context(main), name)


def options_of(name):
    """Return the names of a command's options as keywords."""
    names = [opt for one in command(name).params if isinstance(one, click.Option) for opt in one.opts]
    return {one.removeprefix("--").replace("-", "_") for one in names}


def keywords_of(function):
    parameters = inspect.signature(function).parameters.values()
    return {one.name for one in parameters if one.kind is not one.VAR_POSITIONAL} - {"self"}


@pytest.mark.parametrize("name", CALLED)
def test_every_keyword_has_an_option_of_its_name(name):
    missing = keywords_of(CALLED[name]) - options_of(name)
    assert missing - NOT_OPTIONS[name].keys() == set()
    assert NOT_OPTIONS[name].keys() <= keywords_of(CALLED[name])  # no exception that is not needed


def test_every_option_of_audits_is_a_keyword():
    assert options_of("audit") - keywords_of(tl.audit) == BEYOND_AUDIT.keys()


@pytest.mark.parametrize("name", ["audit", "rule", "repair", "alternatives", "compare"])
def test_reading_options_are_the_keywords_of_read(name):
    assert keywords_of(tl.read) - {"path"} == set(ReadOptions.__slots__)
    assert set(ReadOptions.__slots__) <= options_of(name)


@pytest.mark.parametrize(("name", "function"), [("audit", tl.audit), ("repair", tl.Comparison.repair)])
def test_defaults_are_those_of_the_function(name, function):
    parameters = inspect.signature(function).parameters
    checked = 0
    for one in command(name).params:
        keyword = one.opts[0].removeprefix("--").replace("-", "_")
        if keyword in parameters and isinstance(one.default, int | float | str):
            assert one.default == parameters[keyword].default, keyword
            checked += 1
    assert checked >= 2


@pytest.mark.parametrize("function", [tl.audit, tl.read, tl.rule_tables, tl.Comparison.repair, tl.Audit.repair])
def test_every_parameter_has_an_entry_in_the_docstring(function):
    text = inspect.getdoc(function).partition("Parameters\n----------\n")[2].partition("\nReturns\n")[0]
    heads = [line.partition(" : ")[0] for line in text.splitlines() if line and not line.startswith(" ")]
    assert [name for head in heads for name in head.split(", ")] == [
        one.name for one in inspect.signature(function).parameters.values() if one.name not in ("self", "positional")
    ]


@pytest.mark.parametrize("name", main.list_commands(None))
def test_help_fits_a_terminal_of_80_columns(name):
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(main, [name, "--help"]).output
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert shown.count(f"tiltlens {name} ") >= 2


def test_an_option_is_of_one_type_in_every_command():
    """D12: `--output` was a type of scores in `audit`, and a file in `repair`."""
    types: dict[str, set[str]] = {}
    for name in main.list_commands(None):
        for option in command(name).params:
            for spelling in option.opts if isinstance(option, click.Option) else ():
                types.setdefault(spelling, set()).add(option.type.name)
    assert {spelling: kinds for spelling, kinds in types.items() if len(kinds) > 1} == {}
    assert "--output" not in types
