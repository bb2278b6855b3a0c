"""Ask vfairness to decompose the difference of mean predictions, and which features it flags as proxies."""

from __future__ import annotations

from planted_proxies.runners import Answer
from planted_proxies.worlds import Draw

name = "vfairness, fairness_decomposition"
requires = ("vfairness==0.2.0",)
page = "https://vfairness.validant.ai/api-reference/"
asked = "each input's contribution to the demographic parity disparity, and the flagged proxies"
given = "model"
rule = "its list of flagged proxies: correlation with the group of .30 or more, and a tenth of the disparity"


def run(draw: Draw) -> dict[str, Answer]:
    """Return contributions and flags of all rows (its budget is 200 unless more are asked for), else by default."""
    from vfairness.evaluation.vfairness_metrics.fairness_decomposition import fairness_decomposition

    found = fairness_decomposition(
        draw.predict,
        draw.matrix,
        draw.audited.astype(int),
        feature_names=draw.inputs,
        max_rows=len(draw.scores),
        random_state=draw.seed,
    )
    flagged = set(found.flagged_proxies)
    return {one: Answer(float(value), verdict=one in flagged) for one, value in found.per_feature.items()}
