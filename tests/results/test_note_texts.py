"""Notes are sentences that keep their code and values."""

import ast
import copy
import pickle
from pathlib import Path
from string import Formatter

import polars as pl
from tests.people import audited, people

import tiltlens
from tiltlens import _notes as notes
from tiltlens._notes import SENTENCES, Note
from tiltlens._results.codec import to_plain


def test_a_note_is_its_sentence_and_keeps_what_it_is_made_of():
    note = Note("few people behind weights", group="women", people=1.25)
    assert note == SENTENCES["few people behind weights"].format(group="women", people=1.25)
    for again in (pickle.loads(pickle.dumps(note)), copy.deepcopy(note)):
        assert (again, again.code, again.values) == (note, note.code, note.values)
    assert type(to_plain(note)) is str


def test_names_from_data_are_not_read_as_templates():
    assert Note("constant amounts", groups="{x} and of {0}") == SENTENCES["constant amounts"].replace(
        "{groups}", "{x} and of {0}"
    )


def calls_of_note():
    """Return the names of the values of every call of `Note` in the package, by code."""
    calls = {}
    for path in Path(tiltlens.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        assigned = {  # a code may be chosen in the line above
            target.id: node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name) and target.id == "code"
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Note" and node.args:
                for code in codes_of(assigned.get(getattr(node.args[0], "id", ""), node.args[0])):
                    calls.setdefault(code, []).append({keyword.arg for keyword in node.keywords})
    return calls


def codes_of(expression):
    """Return the codes that an expression may have: one, or one of two."""
    both = (expression.body, expression.orelse) if isinstance(expression, ast.IfExp) else (expression,)
    return [part.value for part in both]


def test_every_sentence_is_used_with_the_values_it_names():
    named = {code: {name for _, name, _, _ in Formatter().parse(text) if name} for code, text in SENTENCES.items()}
    calls = calls_of_note()
    assert calls.keys() == SENTENCES.keys()
    assert {code: found for code, found in calls.items() if any(names != named[code] for names in found)} == {}


def test_no_two_groups_of_sentences_share_a_code():
    groups = [part for name, part in vars(notes).items() if name.startswith("_") and isinstance(part, dict)]
    groups = [part for part in groups if part and all(isinstance(text, str) for text in part.values())]
    assert sum(map(len, (part for part in groups if set(part) <= set(SENTENCES)))) == len(SENTENCES)


def test_a_comparison_has_notes_with_codes():
    audit = audited(pl.concat([people(), people()]), propensity="chance", folds=None)
    assert "repeated rows" in {getattr(note, "code", None) for note in audit["A"].checks.notes}
