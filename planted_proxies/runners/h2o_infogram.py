"""Ask H2O for the fair infogram: how relevant a feature is to decisions, and how safe given the group. Needs Java."""

from __future__ import annotations

import numpy as np

from planted_proxies.runners import Answer
from planted_proxies.worlds import GROUP, Draw

name = "H2O, fair infogram"
requires = ("h2o==3.46.0.12", "pandas")
page = "https://docs.h2o.ai/h2o/latest-stable/h2o-docs/admissible.html"
asked = "relevance to decisions (scores above their mean) and safety, the information beyond the group"
given = "scores"
rule = "relevant (index from 0.1 on) and not safe (index below 0.1), the default thresholds"


def run(draw: Draw) -> dict[str, Answer]:
    """Return relevance times what is missing of safety, and whether a relevant feature is not admissible as unsafe."""
    import h2o
    import pandas as pd
    from h2o.estimators.infogram import H2OInfogram

    h2o.init(nthreads=1, max_mem_size="2G", bind_to_localhost=True, verbose=False)
    h2o.no_progress()
    table = pd.DataFrame({one: np.asarray(draw.table[one], dtype=np.float64) for one in draw.features})
    table[GROUP] = np.where(draw.audited, "audited", "reference")
    table["decision"] = np.where(draw.scores > np.mean(draw.scores), "yes", "no")
    frame = h2o.H2OFrame(table, column_types={GROUP: "enum", "decision": "enum"})
    infogram = H2OInfogram(protected_columns=[GROUP], seed=1 + draw.seed)
    infogram.train(x=draw.features, y="decision", training_frame=frame)
    found = infogram.get_admissible_score_frame().as_data_frame()
    answers = {}
    for row in found.to_dict("records"):
        relevance, safety = float(row["relevance_index"]), float(row["safety_index"])
        is_unsafe = relevance >= infogram.relevance_index_threshold and safety < infogram.safety_index_threshold
        answers[str(row["column"])] = Answer(relevance * (1.0 - safety), verdict=is_unsafe)
    h2o.remove_all()
    return answers
