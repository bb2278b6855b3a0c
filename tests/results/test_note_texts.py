"""Notes are sentences that keep their code and values."""

import copy
import pickle
import re
from pathlib import Path
from string import Formatter

import polars as pl
import pytest
from tests.people import audited, people

import tiltlens.results
from tiltlens.results.codec import to_plain
from tiltlens.results.notes import SENTENCES, Note


def test_a_note_is_its_sentence_and_keeps_what_it_is_made_of():
    note = Note("few people behind weights", group="women", people=1.25)
    assert note == "the effective sample size of women is 1.2: intervals are unreliable"
    for again in (pickle.loads(pickle.dumps(note)), copy.deepcopy(note)):
        assert (again, again.code, again.values) == (note, note.code, note.values)
    assert type(to_plain(note)) is str


def test_names_from_data_are_not_read_as_templates():
    assert Note("constant amounts", groups="{x} and of {0}").startswith("all amounts of {x} and of {0} are")


@pytest.mark.parametrize("code", SENTENCES)
def test_every_sentence_is_used_with_the_values_it_names(code):
    folder = Path(tiltlens.results.__file__).parent
    source = " ".join(path.read_text() for path in (folder / "notes.py", folder / "build_comparison.py"))
    call = re.search(rf'Note\("{code}"(.*?)(?:Note\(|\n)', source)
    assert call is not None
    names = {name for _, name, _, _ in Formatter().parse(SENTENCES[code]) if name}
    assert set(re.findall(r"(\w+)=", call[1])) == names


def test_a_comparison_has_notes_with_codes():
    audit = audited(pl.concat([people(), people()]), propensity="chance", folds=None)
    assert "repeated rows" in {getattr(note, "code", None) for note in audit["A"].checks.notes}
