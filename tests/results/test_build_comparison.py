"""A comparison is a pure function of evidence and settings: it reads no file, starts no pass, keeps no state."""

from dataclasses import FrozenInstanceError, replace

import pytest
from tests.people import assert_same_numbers, audited, in_files, lending, people

import tiltlens as tl
from tiltlens._analysis.evidence import Settings
from tiltlens._results.build_comparison import compare


@pytest.fixture
def seen(monkeypatch):
    """Return the list of what `compare` is given."""
    module, given = __import__("tiltlens._pipeline", fromlist=["compare"]), []
    monkeypatch.setattr(module, "compare", lambda *arguments: given.append(arguments) or compare(*arguments))
    return given


@pytest.mark.parametrize("options", [{}, {"propensity": "chance", "threshold": 0.5}, {"folds": None}])
def test_evidence_is_all_that_a_comparison_needs(seen, options, tmp_path):
    pattern = in_files(people(), tmp_path, "parquet")
    expected = audited(pattern, **options)["A"].to_dict()
    for file in tmp_path.iterdir():
        file.unlink()
    ((evidence, settings),) = seen
    for _ in range(2):
        assert_same_numbers(compare(evidence, settings).to_dict(), expected, within=0.0)


@pytest.mark.parametrize("sample_rows", [500_000, 1_000])
def test_other_settings_of_the_same_evidence_are_another_audit(seen, sample_rows):
    question = {"group": "group", "reference": "b", "audited": "a", "scores": "score", "propensity": "chance"}
    question |= {"features": ["region", "amount"], "sample_rows": sample_rows}
    tl.audit(lending(), **question)
    ((evidence, settings),) = seen
    other = {"confidence": 0.8, "materiality": 0.02, "input_weight": 0.5, "output_weight": 2.0}
    found = compare(evidence, replace(settings, **other)).to_dict()
    assert_same_numbers(found, tl.audit(lending(), **question | other)["a"].to_dict())


def test_evidence_cannot_be_changed(seen):
    audited(people(), folds=None)
    ((evidence, settings),) = seen
    for frozen, name in (
        (evidence, "sample"),
        (evidence.rows, "weights"),
        (settings, "random_state"),
        (Settings(), "folds"),
    ):
        with pytest.raises(FrozenInstanceError):
            setattr(frozen, name, 1)
