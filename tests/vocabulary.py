"""The words and number formats that texts for people do not have, and where such texts are found."""

import ast
import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import tiltlens
from tiltlens._documents.quantities import FEATURES, QUANTITIES

SRC = Path(tiltlens.__file__).parent
API = Path(__file__).parent.parent / "docs" / "api.md"
WORDS = (
    r"beside|alike|lean(?:s|ing)?|tell(?:s|ing)?|told|said|withheld|less (?:reference|the reference|old|that of)",
    r"stands?(?!-)|stood|pulls|knows|go(?:es)? through|gone through|left over|left between|adding up|by themselves",
    r"(?:another|a) way in|more than chance|may be chance|people affected|soft groups?|lawful reasons?|held to be",
    r"what (?:counts?|carries|goes|came|is (?:told|said|left|known|made|shown|wanted)|are left)",
    r"one (?:row|line|dot|bar|point|step|column|thread) an? \w+|no interval holds|hold the (?:truth|true)",
    r"(?<!there )(?<!There )(?:is|are) no (?!longer\b|more\b|less\b|such\b)\w+",
)
FRAGMENT = r"(?:^|(?<=[.;:] ))Of (?:scores|amounts|decisions|the|a|each|every|all|several|two|unobserved)\b"
FORMATS = r"\d %|[+−-]0\.00?\b(?!\d)|\bp = 0\.000?\b(?!\d)"
DIALECT = re.compile(rf"\b(?:{'|'.join(WORDS)})\b|{FRAGMENT}|{FORMATS}", re.MULTILINE)
NAMES = re.compile(r"`[^`\n]*`|\{[^{}]*\}|“[^”]*”")  # code, values and quotations are not our words


def dialect_of(text):
    """Return the phrases of a text that language for people does not have."""
    return DIALECT.findall(NAMES.sub("", text))


def catalogue():
    """Yield each text that quantities, verdicts, notes and the other catalogues have, with its place."""
    for entry in (*QUANTITIES.values(), *FEATURES.values()):
        yield f"quantity {entry.key}", f"{entry.label}\n{entry.definition}"
    modules = [f"_documents.{path.stem}" for path in sorted((SRC / "_documents").glob("*.py"))]
    for name in (*modules, "_notes", "_rules.measures", "_estimators.verdicts"):
        module = import_module(f"tiltlens.{name.removesuffix('.__init__')}")
        for key, value in vars(module).items():
            if key.isupper():
                yield from ((f"{name}.{key}", text) for text in texts_in(value))


def texts_in(value):
    """Yield the sentences in a constant: texts of several words, in whatever they are kept."""
    if isinstance(value, str):
        if value.count(" ") > 1:
            yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from texts_in(entry)
    elif isinstance(value, tuple | list):
        for entry in value:
            yield from texts_in(entry)


def command_help():
    """Yield the help of every command and of its options."""
    from tiltlens._cli import main

    for name in main.list_commands(None):
        command = main.get_command(None, name)
        yield f"tiltlens {name}", command.help or ""
        for option in command.params:
            yield f"tiltlens {name} {option.name}", getattr(option, "help", None) or ""


def docstrings():
    """Yield the docstrings of every name of the reference and of its public methods."""
    for name in re.findall(r"^   ([\w.]+)$", API.read_text(), re.MULTILINE):
        entry = pkgutil.resolve_name(f"tiltlens:{name}" if name.count(".") == 0 else f"tiltlens.{name}")
        yield name, inspect.getdoc(entry) or ""
        methods = vars(entry).items() if inspect.isclass(entry) else ()
        for key, method in methods:
            if not key.startswith("_"):
                yield f"{name}.{key}", inspect.getdoc(method) or ""


def messages():
    """Yield the sentences of each module outside docstrings: those of errors, notes and reasons."""
    for path in sorted(SRC.rglob("*.py")):
        tree = ast.parse(path.read_text())
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in inside | docs:
                text = literal(node)
                if text.count(" ") > 2:
                    yield f"{path.relative_to(SRC)}:{node.lineno}", text


def literal(node):
    """Return what a text says outside its values."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(literal(part) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def planted_proxies():
    """Yield what the benchmark prints for people: what its worlds, its runner and the heads of its tables say."""
    from planted_proxies import tables
    from planted_proxies.runners import runner

    yield "worlds", tables.worlds_table()
    for name in ("asked", "rule"):
        yield f"runner {name}", getattr(runner("tiltlens"), name)
    row = {
        "name": "tool",
        "version": "1",
        "page": "",
        "asked": "",
        "given": "",
        "rule": "",
        "failed": "why",
        "seeds": 0,
    }
    for table in (tables.questions_table, tables.sure_table, tables.tools_table):
        yield table.__name__, table([row])
    answer = {"value": -0.01, "verdict": False, "word": "no material contribution"}
    draw = {"world": "direct", "answers": {"neutral": answer, "noise 1": answer}}
    yield "verdicts", tables.words_table({"draws": [draw]})
