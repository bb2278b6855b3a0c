"""Small data that ships with the package: COMPAS records of the paper's experiment, described in README.md here."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["COMPAS_FEATURES", "COMPAS_LABELS", "load_compas"]

COMPAS_GROUPS: tuple[str, ...] = ("African-American", "Caucasian")

COMPAS_LABELS: dict[str, tuple[str, ...]] = {
    "Age": ("<25", "25 to 45", ">45"),
    "ChargeDegree": ("Misdemeanor", "Felony"),
    "Sex": ("Female", "Male"),
    "PriorCounts": ("0", "1 to 3", ">3"),
    "LengthOfStay": ("<week", "<3 months", ">3 months"),
}

COMPAS_FEATURES = list(COMPAS_LABELS)


def load_compas() -> pl.DataFrame:
    """Return the 5,278 COMPAS records of the paper's experiment, one row per person.

    They are ProPublica's records of people scored in Broward County, Florida, in 2013 and 2014, after ProPublica's
    filter, for the groups "African-American" and "Caucasian". The project's licence does not cover them. ``README.md``
    in the same folder lists their source, filters and known errors.

    Returns
    -------
    polars.DataFrame
        ``race``; the five features of ``COMPAS_FEATURES`` as ordered labels, and as ordinal codes
        in ``<feature>_code`` (the label's position in ``COMPAS_LABELS``); ``age_years``,
        ``priors_count`` and ``days_in_jail`` as numbers; ``is_recid``, the outcome that reproduces
        the paper, and ``two_year_recid``. No value is missing.

    Examples
    --------
    >>> from tiltlens.datasets import COMPAS_FEATURES, load_compas
    >>> people = load_compas()
    >>> people.shape
    (5278, 16)
    >>> people.group_by("race").len().sort("race").rows()
    [('African-American', 3175), ('Caucasian', 2103)]
    >>> people.select(COMPAS_FEATURES).row(0)
    ('25 to 45', 'Felony', 'Male', '0', '<3 months')
    """
    import polars as pl

    with as_file(files("tiltlens.datasets") / "compas.parquet") as path:
        people = pl.read_parquet(path)
    orders = {"race": COMPAS_GROUPS, **COMPAS_LABELS}
    return people.with_columns(pl.col(name).cast(pl.Enum(order)) for name, order in orders.items())
