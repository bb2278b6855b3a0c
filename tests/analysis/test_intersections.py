"""Many groups in an audit: from sums over all rows, with groups of two people, and without naming small ones."""

import re
from functools import cache, partial

import numpy as np
import polars as pl
import pytest

import tiltlens as tl
from tiltlens._limits import SUPPRESSED_BELOW

AUDIT = partial(tl.audit, scores="hired", features=[])


def people(rows=3_000, seed=0, interaction=0.0):
    rng = np.random.default_rng(seed)
    sex, region = rng.integers(0, 2, rows), rng.choice(30, rows, p=np.arange(30, 0, -1) / 465)
    rate = 0.4 - 0.1 * sex + 0.01 * (region % 5) + interaction * (2 * sex - 1) * (2 * (region % 2) - 1)
    hired = (rng.random(rows) < rate).astype(int)
    return pl.DataFrame(
        {"sex": np.where(sex == 1, "women", "men"), "region": [f"r{r:02}" for r in region], "hired": hired}
    )


@cache
def audited():
    table = pl.concat([people(), pl.DataFrame({"sex": ["women"], "region": ["alone"], "hired": [1]}, people().schema)])
    return AUDIT(table, group=["sex", "region"]), table


def test_every_group_of_two_people_counts():
    audit, table = audited()
    sizes = table.group_by("sex", "region").len()["len"]
    every = audit.intersections
    assert (every.groups, every.singletons) == (int((sizes > 1).sum()), int((sizes == 1).sum()))
    assert every.frame["people"].sum() + every.singletons == table.height
    assert every.frame["people"].min() < SUPPRESSED_BELOW
    assert every.between_groups.low > 0.0
    assert every.equal_means < 0.01
    assert every.tail_bound == pytest.approx(every.between_groups.high * np.sqrt(10))


def test_the_tail_bound_holds_for_any_union_of_groups():
    rng = np.random.default_rng(0)
    for _ in range(50):
        share = rng.dirichlet(np.ones(20))
        deviation = rng.standard_normal(20)
        deviation -= share @ deviation
        chosen = rng.random(20) < 0.3
        if share[chosen].sum() > 0.1:
            mean = share[chosen] @ np.abs(deviation[chosen]) / share[chosen].sum()
            assert mean <= np.sqrt(share @ deviation**2 / 0.1)


@pytest.mark.parametrize(("interaction", "is_seen"), [(0.0, False), (0.15, True)])
def test_an_interaction_is_seen_where_there_is_one(interaction, is_seen):
    every = AUDIT(people(rows=6_000, seed=1, interaction=interaction), group=["sex", "region"]).intersections
    assert (every.interaction.low > 0.0) == is_seen
    assert every.main_effects.low > 0.0


def test_what_is_shown_names_no_group_of_fewer_than_ten_people():
    audit, _ = audited()
    shown = audit.to_dict()["intersections"]
    assert shown["singletons"] is None
    assert shown["groups"] == audit.intersections.groups
    assert min(row["people"] for row in shown["table"]) >= SUPPRESSED_BELOW
    hidden = set(audit.intersections.frame["group"]) - {row["group"] for row in shown["table"]}
    assert hidden
    listed = str(audit).partition("groups together")[2].partition("Data")[0]
    printed = re.findall(r"^(\w+) & region = (\w+) ", listed, re.MULTILINE)
    assert len(printed) == 20
    assert hidden.isdisjoint(map(" & ".join, printed))


def test_saved_audit_and_page_have_the_same(tmp_path):
    audit, _ = audited()
    audit.to_json(tmp_path / "audit.json")
    saved = tl.read_audit(tmp_path / "audit.json").intersections
    assert saved.between_groups == audit.intersections.between_groups
    assert saved.disclosed().frame.equals(saved.frame)
    audit.report(tmp_path / "page.html")
    assert "groups together" in (tmp_path / "page.html").read_text()
    assert "groups together" in audit._repr_html_()


def test_rows_in_batches_and_beyond_the_sample_give_the_same(tmp_path):
    audit, table = audited()
    table.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "people.parquet")
    other = AUDIT(tmp_path / "people.parquet", group=["sex", "region"], sample_rows=1_000)
    assert other.intersections.between_groups.value == pytest.approx(
        audit.intersections.between_groups.value, abs=1e-12
    )
    assert other.intersections.equal_means == audit.intersections.equal_means
    assert other.intersections.frame.equals(audit.intersections.frame)


def test_few_groups_clusters_and_plug_in_values_have_none():
    table = people(rows=300).with_columns(household=pl.int_range(300) // 2)
    assert AUDIT(table, group="sex").intersections is None
    assert AUDIT(table, group=["sex", "region"], clusters="household").intersections is None
    assert AUDIT(table, group=["sex", "region"], folds=None).intersections is None
