"""Decisions as practice tests them: against scipy and statsmodels, from all rows, of independent people."""

import re
from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy.stats import chi2_contingency, fisher_exact
from statsmodels.stats.proportion import proportions_ztest
from tests.people import FILES, assert_same_numbers, audited, note_codes, people
from tests.wording import code_of

import tiltlens as tl
from tiltlens._analysis.output_tables import _tested
from tiltlens._estimators.verdicts import Count, z_score
from tiltlens._limits import FOUR_FIFTHS
from tiltlens._results.codec import to_plain


def decided(*groups, **options):
    """Return the table of an audit of outputs, from (size, counted) of the audited group and of the reference."""
    table = pl.DataFrame(
        {
            "group": np.repeat(["a", "b"], [size for size, _ in groups]),
            "score": np.concatenate([np.arange(n) < k for n, k in groups]).astype(float),
        }
    )
    return tl.audit(table, "group", reference="b", scores="score", **options)["a"]


@pytest.mark.parametrize("groups", [((200, 60), (300, 150)), ((40, 25), (90, 31)), ((500, 212), (400, 166))])
def test_every_number_against_scipy_and_statsmodels(groups):
    (n, a), (n1, c) = groups
    found = decided(*groups).decision_table
    cells = [[a, n - a], [c, n1 - c]]
    z, p = proportions_ztest([a, c], [n, n1])
    assert found.counts == {
        who: dict(zip(("favourable", "unfavourable"), row, strict=True))
        for who, row in zip(("audited", "reference"), cells, strict=True)
    }
    assert (found.z, found.z_p_value) == pytest.approx((z, p), rel=1e-12)
    assert found.z**2 == pytest.approx(chi2_contingency(cells, correction=False).statistic, rel=1e-12)
    assert found.fisher_p_value == pytest.approx(fisher_exact(cells).pvalue, rel=1e-12)
    assert found.odds_ratio.value == pytest.approx(a * (n1 - c) / ((n - a) * c), rel=1e-12)
    assert (found.odds_ratio.low > 1 or found.odds_ratio.high < 1) == (abs(z) > found.critical_z)


def fewest(sizes, counted, is_found):
    """Return the fewest changes of two counts that change a finding, by looking at every other table."""
    was = is_found(*counted)
    every = product(range(sizes[0] + 1), range(sizes[1] + 1))
    return min(abs(x - counted[0]) + abs(y - counted[1]) for x, y in every if is_found(x, y) != was)


@pytest.mark.parametrize("counted", [(3, 11), (11, 3), (6, 8), (8, 6), (12, 12), (0, 0), (15, 20)])
def test_flips_are_the_fewest_of_either_group(counted):
    sizes = (15, 20)

    def is_far(x, y):
        return abs(z_score(Count(15, x), Count(20, y)) or 0.0) >= 1.959963984540054

    def is_below(x, y):
        rates = sorted((x / 15, y / 20))
        return rates[0] < (FOUR_FIFTHS - 1e-12) * rates[1]

    found = _tested(*(Count(n, k) for n, k in zip(sizes, counted, strict=True)), 0.95)
    assert found.z_flips == fewest(sizes, counted, is_far)
    assert found.ratio_flips == fewest(sizes, counted, is_below)


@pytest.mark.parametrize("held", [*FILES, "duckdb"], indirect=True)
def test_every_engine_counts_all_rows_though_few_are_sampled(held):
    table = people(3_000).select("group", "score")
    found = tl.audit(held(table), "group", reference="B", scores="score", threshold=0.5, sample_rows=1_000)["A"]
    whole = tl.audit(table, "group", reference="B", scores="score", threshold=0.5)["A"]
    assert "sampled" in note_codes(found)
    assert_same_numbers(to_plain(found.decision_table), to_plain(whole.decision_table), within=1e-12)


def test_a_low_outcome_that_people_want_is_what_is_counted():
    low = decided((200, 60), (300, 150), favourable="low").decision_table
    assert low.counts["audited"] == {"favourable": 140, "unfavourable": 60}
    assert low.z == pytest.approx(-decided((200, 60), (300, 150)).decision_table.z, rel=1e-12)


def test_few_people_are_not_told():
    found = decided((200, 4), (300, 150)).decision_table
    assert found.counts["audited"] == {"favourable": None, "unfavourable": None}
    assert found.counts["reference"] == {"favourable": 150, "unfavourable": 150}
    assert code_of(decided((40, 1), (300, 20)).decision_table.note) == "sparse table"


def test_one_outcome_is_nothing_to_test():
    found = decided((20, 20), (30, 30)).decision_table
    assert (found.z, found.z_p_value, found.odds_ratio, found.fisher_p_value) == (None, None, None, 1.0)
    assert code_of(found.note) == "same outcome"


@pytest.mark.parametrize("options", [{"sample_weight": "weight"}, {"clusters": np.arange(400) // 2}])
def test_weights_and_clusters_have_no_table_and_that_is_said(options):
    c = audited(people(), features=[], threshold=0.5, **options)["A"]
    assert c.decision_table is None
    assert "dependent decisions" in note_codes(c)


@pytest.mark.parametrize("options", [{}, {"threshold": 0.5, "folds": None}])
def test_scores_and_plug_in_values_have_no_table(options):
    c = audited(people(), features=[], **options)["A"]
    assert c.decision_table is None
    assert "dependent decisions" not in note_codes(c)
    assert c.to_dict()["decision_table"] is None


def test_every_view_shows_the_table(tmp_path, worded):
    audit = audited(people(), features=[], threshold=0.5)
    worded(re.findall(r"Audited vs reference: .* 0.54\)", " ".join(str(audit).split())))
    audit.report(tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "p &lt; 0.001" in page
    assert f"at least {audit['A'].decision_table.ratio_flips} decisions" in page
