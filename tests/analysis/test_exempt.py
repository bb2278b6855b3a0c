"""The gap in two parts, through the exempt factors and at equal ones: identities, a known truth, every view."""

import json

import jsonschema
import numpy as np
import polars as pl
import pytest
from tests.command import invoked
from tests.estimators.test_sets import least_squares
from tests.people import FEATURES, assert_same_numbers, audited, lending, people
from tests.schemas import SCHEMA, strict
from tests.wording import code_of

import tiltlens as tl
from tiltlens._documents.quantities import quantity
from tiltlens._estimators.feature_gap import joint_codes
from tiltlens._estimators.influence import Rows
from tiltlens.errors import DataError

CODES = ["city", "owner", "home"]


def coded(rows=600):
    """Return people with three discrete features, of few joint values."""
    frame = people(rows)
    return frame.with_columns(home=(pl.col("income").fill_null(50) > 50) & pl.col("owner"))


def by_least_squares(frame, names):
    """Return c_A, the group's coefficient in a regression with a dummy of each joint value of A."""
    rows = Rows.of((frame["group"] == "A").to_numpy(), None)
    codes = [frame[name].cast(pl.String).cast(pl.Categorical).to_physical().to_numpy() for name in names]
    cells = joint_codes(np.column_stack(codes))[0] if names else np.zeros(frame.height)
    return least_squares(rows, frame["score"].to_numpy(), cells)


def numbers_of(c, column):
    return dict(c.contributions_full.select("feature", column).rows())


def test_both_parts_and_their_table_are_coefficients_of_least_squares():
    frame = coded()
    c = audited(frame, features=CODES, exempt=["owner"], folds=None)["A"]
    whole, left = by_least_squares(frame, []), by_least_squares(frame, ["owner"])
    assert c.gap.value == pytest.approx(whole, abs=1e-12)
    assert c.gap_parts.gap_given_exempt.value == pytest.approx(left, abs=1e-12)
    assert c.gap_parts.gap_explained_by_exempt.value == pytest.approx(whole - left, abs=1e-12)
    for name, others in {"city": ["owner", "home"], "home": ["owner", "city"]}.items():
        row = c.contributions_full.filter(feature=name).row(0, named=True)
        assert row["alone"] == pytest.approx(left - by_least_squares(frame, ["owner", name]), abs=1e-12)
        every = by_least_squares(frame, CODES)
        assert row["beyond_others"] == pytest.approx(by_least_squares(frame, others) - every, abs=1e-12)


@pytest.mark.parametrize("features", [CODES, [*FEATURES, "home"]], ids=["cells", "ridges"])
@pytest.mark.parametrize("exempt", ["owner", ["owner", "city"]])
def test_parts_add_up_and_so_does_what_other_features_carry(features, exempt):
    c = audited(coded(), features=features, exempt=exempt)["A"]
    assert c.gap_parts.gap_explained_by_exempt.value + c.gap_parts.gap_given_exempt.value == pytest.approx(
        c.gap.value, abs=1e-12
    )
    for part in (c.gap_parts.gap_explained_by_exempt, c.gap_parts.gap_given_exempt):
        assert part.low < part.value < part.high
    shared = [value for value in numbers_of(c, "shapley").values() if value is not None]
    assert len(shared) == len(features) - len(c.gap_parts.exempt)
    assert sum(shared) + c.gap_parts.shapley_remainder == pytest.approx(c.gap_parts.gap_given_exempt.value, abs=1e-9)
    rows = c.contributions_full.filter(pl.col("feature").is_in(c.gap_parts.exempt))
    assert rows["verdict"].unique().to_list() == ["exempt (declared)"]
    assert [code_of(reason) for reason in rows["reason"].unique()] == ["exempt"]
    assert rows.select("alone", "beyond_others", "shapley").null_count().sum_horizontal().item() == 3 * rows.height


def test_without_exempt_factors_nothing_changes():
    plain, none = (audited(people(), propensity="chance", **options) for options in ({}, {"exempt": []}))
    assert none["A"].to_dict() == plain["A"].to_dict()
    assert plain["A"].gap_parts.gap_explained_by_exempt is plain["A"].gap_parts.gap_given_exempt is None


@pytest.mark.parametrize("features", [CODES, FEATURES], ids=["cells", "ridges"])
def test_with_all_features_exempt_the_rest_is_what_the_same_sets_leave(features, monkeypatch):
    from tiltlens._results import build_comparison as compare

    seen = []
    monkeypatch.setattr(compare, "exempt_parts", lambda e, found=compare.exempt_parts: (seen.append(e), found(e))[1])
    c = audited(coded(), features=features, exempt=features, propensity="chance")["A"]
    every = float(seen[0].nuisances.sets.left_out().values[0])
    assert c.gap_parts.gap_given_exempt.value == pytest.approx(every, abs=1e-9)
    assert c.gap_parts.gap_explained_by_exempt.value == pytest.approx(c.gap.value - every, abs=1e-9)
    assert c.contributions_full["verdict"].unique().to_list() == ["exempt (declared)"]
    assert c.gap_parts.shapley_remainder == pytest.approx(every, abs=1e-9)


def test_a_copy_of_an_exempt_factor_carries_nothing_more():
    data = coded().with_columns(copy=pl.col("city"))
    c = audited(data, features=["city", "copy", "owner"], exempt="city", propensity="chance")["A"]
    row = c.contributions_full.filter(feature="copy").row(0, named=True)
    assert row["alone"] == pytest.approx(0.0, abs=1e-9)
    assert row["verdict"] == "no material contribution"


def test_swapping_the_groups_flips_both_parts():
    turned = coded().with_columns(chance=1 - pl.col("chance"))
    one = audited(coded(), features=CODES, exempt="owner", propensity="chance")["A"]
    two = audited(turned, features=CODES, exempt="owner", reference="A", propensity="chance")["B"]
    for name in ("gap_explained_by_exempt", "gap_given_exempt"):
        mine, other = one.estimate(name), two.estimate(name)
        assert (mine.value, mine.low) == pytest.approx((-other.value, -other.high), abs=1e-9)


@pytest.mark.parametrize("exempt", ["amount", ["region", "years"]])
def test_a_sample_leaves_the_gap_of_all_rows(exempt):
    options = {"scores": "score", "features": ["region", "amount", "years"], "exempt": exempt, "audited": "a"}
    options |= {"propensity": "chance"}
    c = tl.audit(lending(9_000), "group", **options, sample_rows=2_000)["a"]
    whole = tl.audit(lending(9_000), "group", **options)["a"]
    assert c.gap_parts.gap_explained_by_exempt.value + c.gap_parts.gap_given_exempt.value == pytest.approx(
        whole.gap.value, abs=1e-12
    )
    for name in ("gap_explained_by_exempt", "gap_given_exempt"):
        few, all_rows = c.estimate(name), whole.estimate(name)
        assert few.high - few.low > 1.3 * (all_rows.high - all_rows.low)
        assert few.low < all_rows.value < few.high


@pytest.mark.parametrize("features", [CODES, FEATURES], ids=["cells", "ridges"])
def test_rows_that_belong_together_count_once(features):
    single = coded().with_row_index("person")
    double = pl.concat([single, single])
    options = {"features": features, "exempt": "owner", "propensity": "chance"}
    once, twice = audited(single, **options)["A"], audited(double, **options, clusters="person")["A"]
    for name in ("gap_explained_by_exempt", "gap_given_exempt"):
        one, two = once.estimate(name), twice.estimate(name)
        assert two.value == pytest.approx(one.value, abs=0.005)
        assert two.high - two.low == pytest.approx(one.high - one.low, rel=0.1)


@pytest.mark.parametrize("held", ["csv files"], indirect=True)
def test_files_give_the_same_parts(held):
    options = {"features": ["city", "owner", "income"], "exempt": ["income"], "propensity": "chance"}
    assert_same_numbers(audited(held(people()), **options).to_dict(), audited(people(), **options).to_dict())


ODD = people().with_columns(one=pl.lit(1), id=pl.int_range(400).cast(pl.String), twin=pl.col("group") + "!")
MISTAKES = {
    "the group": ("group", "`exempt` must not name the group, got 'group'.", "name other factors"),
    "no feature": ("weight", "'weight' is not a listed feature (`exempt`).", "list it in `features` too"),
    "no column": ("incme", "Column 'incme' not found (`exempt`).", "did you mean 'income'?"),
    "twice": (["city", "city"], "`exempt` must name different features, got 'city' twice.", "name each of them once"),
    "identifier": ("id", "'id' cannot be exempt, because it is an identifier.", "name features that vary"),
    "constant": (["city", "one"], "'one' cannot be exempt", "name features that vary"),
    "copy of the group": (
        "twin",
        "'twin' cannot be exempt, because it is the group",
        "name features that vary",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(name):
    exempt, rule, hint = MISTAKES[name]
    with pytest.raises(DataError) as raised:
        audited(ODD, features=[*FEATURES, "one", "id", "twin"], exempt=exempt, propensity="chance")
    assert rule in str(raised.value)
    assert hint in str(raised.value)


def test_people_must_be_able_to_be_equal_in_an_exempt_factor(refused):
    data = coded().with_columns(town=pl.Series(np.random.default_rng(0).integers(0, 250, 600).astype(str)))
    with refused(DataError, "'town'", "'A'"):
        audited(data, features=["town", "owner"], exempt="town", propensity="chance")


def test_exempt_factors_must_not_tell_the_groups_apart_together(refused):
    coin = np.random.default_rng(0).random(600) < 0.5
    data = coded().with_columns(coin=pl.Series(coin), other=pl.Series(coin) ^ (pl.col("group") == "A"))
    with refused(DataError, "'A'", "'B'"):
        audited(data, features=["coin", "other", "city"], exempt=["coin", "other"], propensity="chance")


@pytest.mark.parametrize("options", [{}, {"propensity": "chance", "scores": ["low", "score"], "favourable": "score"}])
def test_parts_add_up_with_a_fitted_membership_and_with_classes(options):
    data = people().with_columns(low=1 - pl.col("score"))
    c = audited(data, exempt="income", **options)["A"]
    assert c.gap_parts.gap_explained_by_exempt.value + c.gap_parts.gap_given_exempt.value == pytest.approx(
        c.gap.value, abs=1e-12
    )


def test_a_model_of_the_features_leaves_to_the_others_all_that_is_left():
    c = audited(coded(), scores=None, model=lambda table: 0.3 + 0.3 * table["owner"] + 0.2 * table["home"],
                features=["owner", "home"], exempt="owner", propensity="chance")["A"]  # fmt: skip
    assert c.gap_parts.shapley_remainder == pytest.approx(0.0, abs=1e-12)
    assert numbers_of(c, "shapley")["home"] == pytest.approx(c.gap_parts.gap_given_exempt.value, abs=1e-9)


@pytest.mark.parametrize("folds", [5, None])
def test_every_view_shows_both_parts(folds, tmp_path):
    audit = audited(people(), exempt=["owner"], folds=folds, propensity="chance")
    summary = json.loads(json.dumps(audit.to_dict()))
    jsonschema.validate(summary, strict(SCHEMA))
    assert summary["provenance"]["question"]["exempt"] == "owner"
    audit.report(tmp_path / "audit.html")
    page = (tmp_path / "audit.html").read_text(encoding="utf-8")
    for key in ("gap_explained_by_exempt", "gap_given_exempt"):
        assert quantity(key).label.capitalize() in page
    for text in (str(audit), audit._repr_html_()):
        assert "exempt factors" in text


@pytest.mark.parametrize("exempt", [["owner"], FEATURES], ids=["one", "all"])
def test_the_waterfall_begins_with_the_exempt_factors_and_ends_at_the_audited_mean(exempt):
    c = audited(people(), exempt=exempt, propensity="chance")["A"]
    steps = c.plot("waterfall").table
    assert steps["feature"][1] == quantity("gap_explained_by_exempt").label
    assert steps["contribution"][1] == pytest.approx(c.gap_parts.gap_explained_by_exempt.value)
    assert steps["end"][-2] == pytest.approx(c.outputs.means.audited, abs=1e-9)


def test_the_command_line_takes_exempt_factors_and_gates_on_the_rest(tmp_path):
    people().write_csv(tmp_path / "people.csv")
    options = ("--group", "group", "--reference", "B", "--scores", "score", "--features", ",".join(FEATURES))
    found = invoked(
        "audit", "people.csv", *options, "--exempt", "owner", "--exempt", "city", "--json", "audit.json",
        "--propensity", "chance", "--fail-if", "gap_given_exempt<0", cwd=tmp_path,
    )  # fmt: skip
    assert found.returncode == 1
    assert f"{quantity('gap_given_exempt').label} of A is −" in found.stderr
    c = json.loads((tmp_path / "audit.json").read_text())["comparisons"]["A"]
    expected = audited(people(), exempt=["owner", "city"], propensity="chance")["A"]
    assert c["gap_parts"]["exempt"] == ["owner", "city"]
    assert c["gap_parts"]["gap_explained_by_exempt"]["value"] == pytest.approx(
        expected.gap_parts.gap_explained_by_exempt.value, abs=1e-9
    )


def lawful(seed, rows=2_000):
    """Return people whose score follows an exempt factor, which differs between groups, and a proxy beside it."""
    random = np.random.default_rng(seed)
    audited_ones = random.random(rows) < 0.4
    history = random.normal(-0.5 * audited_ones, 1.0)
    place = np.where(random.random(rows) < 0.3 + 0.3 * audited_ones, "N", "S")
    score = np.clip(0.5 + 0.06 * history - 0.1 * (place == "N") + 0.05 * random.normal(size=rows), 0.0, 1.0)
    noise = random.normal(size=rows)
    table = {"group": np.where(audited_ones, "A", "B"), "history": history, "place": place, "noise": noise}
    return pl.DataFrame(table | {"score": score})


@pytest.mark.slow
def test_both_parts_of_a_known_world_are_covered():
    draws = 100
    # given the group history and place are independent and the score is linear: −.03 through history, −.03 by place
    truth = {"gap_explained_by_exempt": 0.06 * -0.5, "gap_given_exempt": -0.1 * 0.3}
    hits = dict.fromkeys((*truth, "place"), 0)
    for seed in range(draws):
        c = tl.audit(lawful(seed), "group", reference="B", scores="score", exempt="history")["A"]
        for name, value in truth.items():
            hits[name] += c.estimate(name).low <= value <= c.estimate(name).high
        row = c.contributions_full.filter(feature="place").row(0, named=True)
        hits["place"] += row["alone_low"] <= -0.03 <= row["alone_high"] and row["verdict"] == "potential proxy"
    assert min(hits.values()) >= 0.89 * draws - 1, hits  # of 100, fewer than 88 would be seen once in 500 times
