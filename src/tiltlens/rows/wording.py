"""The user's own words: what people are called, what the favourable outcome is, what amounts are counted in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from unicodedata import category

from tiltlens.errors import DataError, nearest_name, shown
from tiltlens.formats import FieldTable

LONGEST = 40  # characters of a word
EXAMPLE = 'for example {"people": "applicants", "favourable": "approved", "unit": "€"}.'


@dataclass(frozen=True, slots=True)
class Wording(FieldTable):
    """Words that sentences and figures use.

    Attributes
    ----------
    people
        Plural noun for the people of the data, such as "applicants".
    favourable
        What happens to a person with the favourable outcome, such as "approved"; "" if not given.
    unit
        Unit of amounts, such as "€" or "days"; "" if not given.
    """

    people: str = "people"
    favourable: str = ""
    unit: str = ""


WORDING = Wording()


def check_wording(given: object, score_type: str) -> Wording:
    """Return the user's words, checked; `favorable` is accepted too."""
    if given is None:
        return WORDING
    if isinstance(given, Wording):
        return given
    if not isinstance(given, Mapping):
        raise DataError(f"`wording` must be a dict of texts, got {shown(given)}.", EXAMPLE)
    words = {("favourable" if name == "favorable" else name): text for name, text in given.items()}
    keys = [field.name for field in fields(Wording)]
    for name, text in words.items():
        if name not in keys:
            nearest = nearest_name(str(name), keys)
            hint = f"did you mean {nearest!r}? " if nearest else ""
            raise DataError(f"`wording` has no key {shown(name)}.", f"{hint}its keys are {', '.join(keys)}.")
        _check_text(name, text)
    _check_applies(words, score_type)
    return Wording(**words)


def _check_text(name: str, text: object) -> None:
    is_text = isinstance(text, str) and text.strip() == text and text.isprintable() and 0 < len(text) <= LONGEST
    if not is_text:
        raise DataError(
            f"`wording` must have texts of 1 to {LONGEST} printable characters, got {shown(text)} for {name!r}.",
            EXAMPLE,
        )


def _check_applies(words: dict[str, str], score_type: str) -> None:
    """Raise where a word would never be used."""
    is_amount = score_type == "amount"
    if is_amount and "favourable" in words:
        raise DataError(
            f"`wording` has {words['favourable']!r} for 'favourable', which amounts do not have.",
            "leave it out; name the unit of the amounts with 'unit'.",
        )
    if not is_amount and "unit" in words:
        raise DataError(
            f"`wording` has the unit {words['unit']!r}, but the scores are not amounts.",
            "leave it out, or pass score_type='amount'.",
        )


def is_symbol(unit: str) -> bool:
    """Return whether a unit is written before its number, as the sign of a currency is."""
    return len(unit) == 1 and category(unit) == "Sc"
