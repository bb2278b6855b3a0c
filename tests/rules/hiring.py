"""People who applied, by sex and race, and who of them was selected."""

import polars as pl

NEVER = ("fair", "complian", "adverse impact", "violat")


def applicants(*cells):
    """Return a table of (sex, race, size, selected) cells, one row a person."""
    rows = [(sex, race, int(place < chosen)) for sex, race, size, chosen in cells for place in range(size)]
    schema = {"sex": pl.String, "race": pl.String, "selected": pl.Int64}
    return pl.DataFrame(rows, schema=schema, orient="row")


# By hand: women 60 of 200 (0.30), men 100 of 200 (0.50); A 120 of 240, B 40 of 160.
# Cells: F&A 45/120 = 0.375, F&B 15/80 = 0.1875, M&A 75/120 = 0.625, M&B 25/80 = 0.3125.
HAND = applicants(("F", "A", 120, 45), ("F", "B", 80, 15), ("M", "A", 120, 75), ("M", "B", 80, 25))
