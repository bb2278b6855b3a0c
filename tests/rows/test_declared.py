"""Columns declared to be categories, or parts of one feature: equal to the same column as texts, wherever rows lie."""

import json
from functools import cache

import numpy as np
import polars as pl
import pytest
from tests.command import invoked
from tests.people import assert_same_numbers, in_files, in_pandas

import tiltlens as tl
from tiltlens._rows.features import one_hot_notes
from tiltlens._rows.roles import Declared, declared_in
from tiltlens.errors import DataError

PLAIN = {"group": "group", "reference": "b", "scores": "score", "folds": None}
REGIONS = 24  # more than numbers may have to be seen by their values


@cache
def people(rows=400, seed=1):
    """Return people whose region alone makes the score: as a text, as a code, and as columns of 0 and 1."""
    rng = np.random.default_rng(seed)
    region, share = rng.integers(0, REGIONS, rows), rng.beta(1, 1, REGIONS)
    audited = rng.random(rows) < share[region]
    columns = {f"region_{one}": (region == one).astype(int) for one in range(REGIONS)}
    names = {"group": np.where(audited, "a", "b"), "score": 0.2 + 0.5 * share[region], "u": rng.normal(size=rows)}
    return pl.DataFrame(names | {"region": region.astype(str), "code": region} | columns)


def only(*features):
    """Return people with some of the columns beside group, score and one other feature."""
    patterns = [f"^{one.replace('*', '.*')}$" for one in features]
    return people().select("group", "score", "u", *(pl.col(one) for one in patterns))


@cache
def of_texts():
    """Return the summary of the audit of regions as texts."""
    return summary(tl.audit(only("region"), **PLAIN))


def summary(audit):
    """Return the comparisons of a summary as plain numbers."""
    return json.loads(json.dumps(audit.to_dict()["comparisons"]))


@pytest.mark.parametrize("kind", [pl.Int64, pl.Float64, pl.Int16])
def test_declared_numbers_are_texts(kind):
    frame = only("region").with_columns(pl.col("region").cast(kind))
    assert_same_numbers(summary(tl.audit(frame, **PLAIN, categorical="region")), of_texts())


@pytest.mark.parametrize("hold", [in_pandas, pl.DataFrame.lazy, lambda frame: frame.to_dict(as_series=False)])
def test_a_block_of_columns_is_one_text(hold):
    audit = tl.audit(hold(only("region_*")), **PLAIN, blocks={"region": ["region_*"]})
    assert_same_numbers(summary(audit), of_texts())
    assert audit.provenance.features == ("u", "region")
    assert audit.provenance.question["blocks"] == "region = region_*"


def test_blocks_in_files_by_the_command_line_and_audit_files(tmp_path):
    files = in_files(only("region_*"), tmp_path, "csv")
    options = ["--group", "group", "--reference", "b", "--scores", "score", "--folds", 0]
    done = invoked(
        "audit",
        files,
        *options,
        "--blocks",
        "region=region_1*,region_*",
        "--json",
        "a.json",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "b.toml").write_text(
        'data = "*.csv"\ngroup = "group"\nreference = "b"\nscores = "score"\nfolds = 0\n'
        'blocks = {region = ["region_1*", "region_*"]}\noutputs = {json = "b.json"}\n'
    )
    assert invoked("run", "b.toml", cwd=tmp_path).returncode == 0
    for name in ("a.json", "b.json"):
        assert_same_numbers(json.loads((tmp_path / name).read_text())["comparisons"], of_texts())
    only("region").write_csv(tmp_path / "codes.csv")
    done = invoked("audit", "codes.csv", *options, "--categorical", "region", "--json", "c.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_same_numbers(json.loads((tmp_path / "c.json").read_text())["comparisons"], of_texts())


@pytest.mark.parametrize("is_file", [False, True])
def test_a_model_gets_the_columns_of_a_block(tmp_path, is_file):
    frame, seen = only("region_*").drop("score"), []

    def model(table):
        seen.append(list(table.columns))
        return sum(0.03 * one * table[f"region_{one}"].to_numpy() for one in range(REGIONS))

    data = in_files(frame, tmp_path, "parquet") if is_file else frame
    asked = {"group": "group", "reference": "b", "model": model, "folds": None}
    c = tl.audit(data, **asked, blocks={"region": ["region_*"]})["a"]
    assert seen
    assert all(one == ["u", *(f"region_{k}" for k in range(REGIONS))] for one in seen)
    assert c._profiles.model.features == ["u", "region"]
    source = np.zeros(frame.height, dtype=np.int64)
    assert np.ptp(c._profiles.model.scores("region", source)) == 0.0  # all of them are in the first row's region


def test_a_repair_of_declared_features_is_that_of_texts(tmp_path):
    codes = pl.col("region").cast(pl.Float64)
    new, held = (people(rows, seed=seed).drop("code") for rows, seed in ((60, 2), (300, 3)))
    expected, of_evaluation = None, None
    for table, declared in (
        (only("region"), {}),
        (only("region").with_columns(codes), {"categorical": ["region"]}),
        (only("region_*"), {"blocks": {"region": ["region_*"]}}),
    ):
        tl.audit(table, **PLAIN, **declared)["a"].repair().to_json(tmp_path / "repair.json")
        tilt = tl.read_repair(tmp_path / "repair.json")
        rows, others = ((one.with_columns(codes) if "categorical" in declared else one) for one in (new, held))
        rows.write_csv(tmp_path / "new.csv")
        found, evaluation = tilt.apply(rows, "score"), float(tilt.evaluate(others, "score", "group")["gap"]["after"])
        expected, of_evaluation = (found, evaluation) if expected is None else (expected, of_evaluation)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        np.testing.assert_allclose(tilt.apply(str(tmp_path / "new.csv"), "score"), expected, atol=1e-9)
        assert evaluation == pytest.approx(of_evaluation)
    assert np.ptp(expected - new["score"].to_numpy()) > 0.01


def test_joint_values_of_other_blocks():
    table = pl.DataFrame(
        {"a_x": [1, 0, 1, None, None], "a_y": [1.0, 0.0, 2.5, 0.0, None], "a_z": ["1", None, "q", "", None]}
    )
    found = Declared(blocks={"a": ("a_x", "a_y", "a_z")}).applied(table)["a"].to_list()
    assert found == ["x, y, z=1", "z=(missing)", "x, y=2.5, z=q", "x=(missing), z=", None]
    assert Declared(blocks={"a": ("a_x", "a_y")}).applied(table)["a"][1] == "(none)"
    assert declared_in({"a": ("b", "c"), "d": ["d"], "e": []}) == Declared(("d",), {"a": ("b", "c")})


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"categorical": "coed"}, "Feature 'coed' not found"),
        ({"categorical": 5}, "`categorical` must be a text or a list of texts, got 5"),
        ({"exclude": 5}, "`exclude` must be a text or a list of texts, got 5"),
        ({"blocks": {"r": [1, 2]}}, "two or more columns for 'r', got 0"),
        ({"categorical": "score"}, "Feature 'score' not found"),
        ({"blocks": ["region_*"]}, "`blocks` must be a dict"),
        (
            {"blocks": {"region": "regoin_*"}},
            "two or more columns for 'region', got 0 that match 'regoin_\\*'",
        ),
        ({"blocks": {"u": ["region_*"]}}, "`blocks` must have new names, but 'u'"),
        ({"blocks": {"r": ["region_*"]}, "features": "u"}, "Feature 'r' not found"),
        ({"blocks": {"r": ["region_*"]}, "categorical": "region_1"}, "Feature 'region_1' not found"),
    ],
)
def test_mistakes_in_declarations(options, said):
    with pytest.raises(DataError, match=said):
        tl.audit(only("region_*"), **PLAIN, **options)


def test_a_block_may_have_more_columns_than_an_audit_may_have_features():
    wide = only("region").with_columns(pl.lit(0).alias(f"more_{one}") for one in range(600))
    audit = tl.audit(wide, **PLAIN, blocks={"more": "more_*"})
    assert audit.provenance.features == ("u", "region", "more")


def test_exempt_names_a_block():
    few = people().with_columns((pl.col("code") % 3 == one).cast(pl.Int64).alias(f"part_{one}") for one in range(3))
    table = few.with_columns(part=(pl.col("code") % 3).cast(pl.String)).select("group", "score", "u", "^part.*$")
    block = tl.audit(table.drop("part"), **PLAIN, blocks={"part": ["part_*"]}, exempt="part")
    text = tl.audit(table.select("group", "score", "u", "part"), **PLAIN, exempt="part")
    assert_same_numbers(summary(block), summary(text))


def test_listed_columns_of_a_block_are_the_block():
    some = [f"region_{one}" for one in range(9)]
    audit = tl.audit(only("region_*"), **PLAIN, blocks={"region": "region_*"}, features=[*some, "u"])
    assert audit.provenance.features == ("region", "u")
    whole = tl.audit(only("region_*"), **PLAIN, blocks={"region": "region_*"}, features=["u", "region"])
    assert_same_numbers(summary(whole), of_texts())
    assert float(audit["a"].contributions_full["alone"].abs().max()) < float(
        whole["a"].contributions_full["alone"].abs().max()
    )


def test_one_hot_columns_are_recognised():
    (note,) = one_hot_notes(only("region_*", "code"))
    assert "'region_*'" in note
    assert "--blocks region=region_*" in note
    two = pl.DataFrame({"sex_f": [1, 0], "sex_m": [False, True], "a_b_1": [0, 1], "a_b_2": [1, 0], "a_c": [1, 0]})
    assert "'a_b_*' or 'sex_*'" in one_hot_notes(two)[0]
    assert not one_hot_notes(pl.DataFrame({"a_1": [1, 1, 0], "a_2": [1, 0, 0], "b": [0, 0, 1], "c_1": [0, 1, 1]}))
    assert not one_hot_notes(pl.DataFrame({"a_1": [1, None], "a_2": [0, 1]}))
    assert any("--blocks region=region_*" in one for one in tl.audit(only("region_*"), **PLAIN)["a"].checks.notes)
