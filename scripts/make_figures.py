"""Draw the gallery: every figure of the COMPAS demo, and the simplex of a world of three atoms.

Run as `python scripts/make_figures.py [FOLDER]`; the default is docs/img.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tiltlens as tl
from tiltlens import figures
from tiltlens._demo import AUDITED, OUTCOME, REFERENCE
from tiltlens._learners.candidates import outcome_scores
from tiltlens._pipeline import audit
from tiltlens.datasets import COMPAS_FEATURES, load_compas
from tiltlens.paper.examples import simplex_paths

WORLD = tl.World([0.70, 0.21, 0.09], [0.24, 0.34, 0.42], channel=[0.85, 0.55, 0.15])

OF_OTHERS = ("sensitivity", "periods", "prices")  # drawn from other audits, which have something to show


def gallery() -> dict[str, figures.Figure]:
    """Return every figure by the name of its file."""
    data = load_compas()
    scores = outcome_scores(data, COMPAS_FEATURES, OUTCOME)
    found = audit(
        data, group="race", reference=REFERENCE, audited=AUDITED, favourable="low", scores=scores, outcome=OUTCOME,
        features=COMPAS_FEATURES,
    )  # fmt: skip
    c = found[AUDITED]
    drawn = {name: draw(c) for name, draw in figures.COMPARISON_FIGURES.items() if name not in OF_OTHERS}
    others = [name for name in COMPAS_FEATURES if name != "PriorCounts"]
    parts = [f"part {1 + 6 * row // len(data)}" for row in range(len(data))]  # stand for months
    without = audit(
        data, group="race", reference=REFERENCE, audited=AUDITED, favourable="low", features=COMPAS_FEATURES,
        scores=outcome_scores(data, others, OUTCOME), periods=parts,
    )  # fmt: skip
    decided = audit(
        data,
        group="race",
        reference=REFERENCE,
        audited=AUDITED,
        favourable="low",
        scores=OUTCOME,
        features=COMPAS_FEATURES,
    )  # what happened, which the features do not determine
    return drawn | {
        "sensitivity": decided[AUDITED].plot("sensitivity"),
        "simplex": figures.simplex(simplex_paths(WORLD).to_dict()),
        "correction_by_value": figures.correction_by_value(c, "PriorCounts"),
        "profile": figures.profile(c, "PriorCounts"),
        "shares_along_tradeoff": figures.shares_along_tradeoff(c, c.correction.shares_along_tradeoff()),
        "rates": figures.rates(found),
        "change": tl.compare(found, without)[AUDITED].plot(),
        "periods": without[AUDITED].plot("periods"),
    }


def main() -> None:
    """Write every figure as .svg."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "img")
    folder.mkdir(parents=True, exist_ok=True)
    for name, figure in gallery().items():
        figure.save(folder / f"{name}.svg")


if __name__ == "__main__":
    main()
