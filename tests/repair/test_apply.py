"""A repair applied to rows wherever they lie: the same numbers, in bounded memory, whole or not at all."""

import warnings
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache

import numpy as np
import polars as pl
import pytest
from tests.people import ENGINES, FILES, in_files, in_pandas
from tests.repair.test_score_tilt import lending

import tiltlens as tl
from tiltlens.errors import TiltlensError

ROWS = 200
pytestmark = pytest.mark.filterwarnings("ignore:.*has not learnt:UserWarning")


@cache
def comparison():
    return tl.audit(lending(1500), group="group", reference="b", scores="score", folds=None)["a"]


@cache
def tilt(**options):
    return comparison().repair(**options)


@cache
def new_rows():
    """Return rows with an unseen area, a missing one, and ids that are no numbers though they look like it."""
    area = pl.when(pl.int_range(ROWS) < 9).then(pl.lit("west")).when(pl.int_range(ROWS) > 190).then(None)
    ids = pl.Series("id", [f"{number:05d}" for number in range(ROWS)])
    return lending(ROWS, seed=3).with_columns(area.otherwise("area").alias("area"), ids)


@cache
def expected(**options):
    group = {"group": "group"} if options.get("use_group") else {}
    return tilt(**options).apply(new_rows(), "score", **group)


@pytest.mark.parametrize("held", ["pandas", "csv files"], indirect=True)
def test_values_that_the_model_has_not_learnt_are_counted(held, small_batches, tmp_path):
    told = "18 of 200 rows have a value of 'area' that the group-membership model has not learnt"
    with pytest.warns(UserWarning, match=told):
        tilt().apply(held(new_rows()), "score")
    with pytest.warns(UserWarning, match=told):
        tilt().apply(held(new_rows()), "score", out=tmp_path / "repaired.parquet")


SCORE = pl.col("score")
UNLIKE = {
    "turned": ((1 - SCORE).alias("score"), "the gap of 'a' against 'b' after adjustment is"),
    "decisions": (
        (SCORE >= 0.5).cast(pl.Float64),
        "the gap of 'a' against 'b' after adjustment is",
    ),
    "units": (pl.col("income") * 100, "rows have a value of 'income' beyond the audited range, 2"),
    "shifted": (pl.col("income") + 100, "197 of 200 rows have a value of 'income' beyond the audited range, 2"),
    "codes": (
        pl.when(pl.int_range(ROWS) < 30).then(-999).otherwise("income").alias("income"),
        "rows have a value of 'income' beyond",
    ),
    "infinite": (
        pl.when(pl.int_range(ROWS) < 7).then(np.inf).otherwise("noise").alias("noise"),
        "7 of 200 rows have a value of 'noise'",
    ),
}


@pytest.mark.parametrize("what", UNLIKE)
def test_rows_unlike_the_audited_ones_are_warned_of(what, tmp_path):
    change, told = UNLIKE[what]
    unlike = new_rows().with_columns(change)
    tilt().to_json(tmp_path / "repair.json")
    for data in (unlike, in_files(unlike, tmp_path, "parquet")):
        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            tl.read_repair(tmp_path / "repair.json").apply(data, "score")
        assert any(told in str(one.message) for one in notes)


def test_rows_like_the_audited_ones_are_not_warned_of(recwarn):
    for rows, seed in ((150, 4), (400, 5), (5000, 6)):
        tilt().apply(lending(rows, seed), "score")
        tilt(threshold=0.5).apply(lending(rows, seed), "score")
    assert not [one for one in recwarn if "learnt" not in str(one.message)]


@pytest.mark.parametrize("held", [*ENGINES, *FILES], indirect=True)
@pytest.mark.parametrize("options", [{}, {"use_group": True}], ids=["blind", "group"])
def test_every_engine_repairs_alike(held, options, small_batches):
    group = {"group": "group"} if options else {}
    found = tilt(**options).apply(held(new_rows()), "score", **group)
    assert found == pytest.approx(expected(**options), abs=1e-12)
    assert np.abs(expected(**options) - new_rows()["score"].to_numpy()).max() > 0.05


@pytest.mark.parametrize("held", ["pandas", "polars lazy", "duckdb", "parquet files", "csv files"], indirect=True)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_file_has_the_columns_of_the_data_and_the_repaired_one(held, ending, small_batches, tmp_path):
    target = tmp_path.parent / f"{tmp_path.name}.{ending}.out.{ending}"  # in the folder it would be read as data
    assert tilt().apply(held(new_rows()), "score", out=target) == target
    read = pl.read_parquet if ending == "parquet" else pl.read_csv
    found = read(target, **({"schema_overrides": {"id": pl.String}} if ending == "csv" else {}))
    assert found.columns == [*new_rows().columns, "score_repaired"]
    assert found["id"].to_list() == new_rows()["id"].to_list()  # "00007" is no 7
    numbers = found["income"].cast(pl.Float64).to_list()
    assert numbers == pytest.approx(new_rows()["income"].to_list())
    assert found["score_repaired"].to_numpy() == pytest.approx(expected(), abs=1e-12)
    assert not list(tmp_path.parent.glob(f".{tmp_path.name}*"))


def many_kinds():
    return lending(5).with_columns(
        id=pl.Series(["a", "b", "c", "d", "e"]),
        day=pl.lit(date(2020, 2, 29)),
        moment=pl.lit(datetime(2020, 2, 29, 12, tzinfo=UTC)),
        price=pl.Series([Decimal("1.10")] * 5),
        several=pl.Series([[1, 2], [], None, [3], [4]]),
    )


def test_columns_that_the_repair_does_not_use_are_written_as_they_are(tmp_path):
    many_kinds().write_parquet(tmp_path / "data.parquet")
    found = tilt().apply(tmp_path / "data.parquet", "score", out=tmp_path / "out.parquet")
    assert pl.read_parquet(found).drop("score_repaired").equals(many_kinds())
    with pytest.raises(TiltlensError, match="CSV"):
        tilt().apply(tmp_path / "data.parquet", "score", out=tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()


def test_files_of_other_widths_become_one(tmp_path):
    for number, kind in enumerate((pl.Int16, pl.Int64)):
        rows = lending(10, seed=number).with_columns(code=pl.lit(number * 10**6 if number else 7).cast(kind))
        rows.write_parquet(tmp_path / f"{number}.parquet")
    found = pl.read_parquet(tilt().apply(str(tmp_path / "?.parquet"), "score", out=tmp_path / "out.parquet"))
    assert found["code"].to_list() == [7] * 10 + [10**6] * 10


def test_arrays_beside_a_table_in_memory_are_scores_and_groups():
    table = new_rows()
    plain = tilt().apply(in_pandas(table).drop(columns="score"), table["score"].to_numpy())
    assert plain.tolist() == expected().tolist()
    aware = tilt(use_group=True).apply({"a": np.arange(ROWS)}, table["score"].to_numpy(), table["group"].to_list())
    assert aware.tolist() == expected(use_group=True).tolist()


def test_what_is_not_repaired_needs_no_features():
    idle = tilt(max_gap=0.5)
    assert idle.features == ()
    assert idle.apply(new_rows().select("score"), "score").tolist() == new_rows()["score"].to_list()


def test_an_unseen_category_has_the_effect_of_the_most_frequent_one():
    rows = new_rows().drop_nulls("income")
    usual = lending(1500)["area"].mode()[0]
    for area in ("west", None):
        found = tilt().apply(rows.with_columns(area=pl.lit(area, dtype=pl.String)), "score")
        assert found.tolist() == tilt().apply(rows.with_columns(area=pl.lit(usual)), "score").tolist()


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "No space left on device")])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_an_interruption_leaves_the_old_file_and_nothing_else(failure, ending, small_batches, tmp_path, monkeypatch):
    from tiltlens._repair.score_tilt import ScoreTilt

    data, target = in_files(new_rows(), tmp_path, "parquet"), tmp_path / "old" / f"old.{ending}"
    target.parent.mkdir()
    target.write_text("old")
    whole, calls = ScoreTilt.repair_batch, []

    def stops(self, *arguments):
        calls.append(1)
        if len(calls) == 4:
            raise failure
        return whole(self, *arguments)

    monkeypatch.setattr(ScoreTilt, "repair_batch", stops)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(KeyboardInterrupt if failure is KeyboardInterrupt else TiltlensError):
        tilt().apply(data, "score", out=target)
    assert sorted(tmp_path.rglob("*")) == before
    assert target.read_text() == "old"


def bad(**columns):
    return new_rows().with_columns(**columns)


def in_row(value, row=100):
    return pl.when(pl.int_range(ROWS) == row).then(value).otherwise("score")


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (lambda: bad(score=in_row(None)), {}, "`scores` must be probabilities, got None in row 100"),
        (lambda: bad(score=in_row(float("nan"))), {}, "`scores` must be probabilities, got None in row 100"),
        (lambda: bad(score=in_row(1.5)), {}, "`scores` must be probabilities, got 1.5 in row 100"),
        (lambda: bad(score=in_row(-0.1, 199)), {}, "`scores` must be probabilities, got -0.1 in row 199"),
        (lambda: bad(score=pl.lit("high")), {}, "`scores` must be probabilities, got high in row 0"),
        (lambda: bad(income=pl.lit("much")), {}, "Column 'income' holds text, but numbers in the audited table"),
        (lambda: new_rows().drop("area"), {}, "Column 'area', which the adjustment needs, not found"),
        (lambda: new_rows(), {"scores": "nobody"}, "nobody"),
        (lambda: new_rows(), {"scores": np.ones(7) / 2}, "`scores` must have one value per row, got 7"),
        (lambda: new_rows().lazy(), {"scores": np.ones(ROWS) / 2}, "`scores` must be the name of a column"),
        (lambda: new_rows().head(0), {}, "`data` has no rows"),
        (lambda: new_rows().head(0).lazy(), {}, "`data` has no rows"),
        (lambda: new_rows(), {"group": "group"}, "does not use `group`"),
    ],
)
def test_mistakes_in_the_data_are_named(data, options, message, small_batches):
    with pytest.raises(TiltlensError, match=message):
        tilt().apply(data(), **{"scores": "score"} | options)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "needs `group`"),
        ("nobody", "nobody"),
        ("area", "`group` must be 'a' or 'b', got"),
        (["a"] * 199 + [None], "`group` must be 'a' or 'b', got ''"),
    ],
)
def test_mistakes_in_the_group_are_named(values, message):
    with pytest.raises(TiltlensError, match=message):
        tilt(use_group=True).apply(new_rows(), "score", group=values)


def test_mistakes_in_the_output_are_named_and_write_nothing(refused, tmp_path):
    source = tmp_path / "data.parquet"
    new_rows().write_parquet(source)
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "link.parquet").symlink_to(source)
    before = sorted(tmp_path.rglob("*"))
    for target, message in {
        "data.parquet": "`out` cannot be written to",
        "link.parquet": "`out` cannot be written to",
        "folder.csv": "cannot be written: Is a directory",
        "nowhere/out.csv": "cannot be written",
        "out.xlsx": "`out` must end in .parquet or .csv",
    }.items():
        with pytest.raises(TiltlensError, match=message):
            tilt().apply(source, "score", out=tmp_path / target)
    again = new_rows().with_columns(score_repaired=0.5)
    with refused(TiltlensError, "`data`", "'score_repaired'"):
        tilt().apply(again, "score", out=tmp_path / "out.csv")
    with pytest.raises(TiltlensError, match=r"got 1\.5 in row 100"):
        tilt().apply(bad(score=in_row(1.5)), "score", out=tmp_path / "out.csv")
    assert sorted(tmp_path.rglob("*")) == before
    assert pl.read_parquet(source).equals(new_rows())


def test_groups_may_be_intersections_of_columns(tmp_path):
    def halved(rows):
        return rows.with_columns(sex=pl.when(pl.col("noise") > 0).then(pl.lit("f")).otherwise(pl.lit("m")))

    audited = halved(lending(1500))
    c = tl.audit(audited, ["group", "sex"], reference="b & m", audited="a & f", scores="score", folds=None)["a & f"]
    aware, rows = c.repair(use_group=True), halved(new_rows())
    rows = rows.filter((pl.col("group") == "a") == (pl.col("sex") == "f"))
    joint = rows.with_columns(who=pl.concat_str("group", "sex", separator=" & "))
    expected = aware.apply(joint, "score", "who")
    assert aware.apply(rows, "score", ["group", "sex"]).tolist() == expected.tolist()
    rows.write_parquet(tmp_path / "rows.parquet")
    assert aware.apply(tmp_path / "rows.parquet", "score", ["group", "sex"]).tolist() == expected.tolist()


def test_what_stands_for_a_missing_value_is_named(tmp_path):
    income = pl.Series("income", [-9 if one is None else one for one in new_rows()["income"]])
    new_rows().with_columns(income).write_csv(tmp_path / "rows.csv")
    found = tilt().apply(tl.read(tmp_path / "rows.csv", na_values="-9.0"), "score")
    assert found == pytest.approx(expected(), abs=1e-12)


def test_numbers_with_decimal_commas_are_read_where_the_option_says_so(refused, tmp_path):
    new_rows().write_csv(tmp_path / "rows.csv", separator=";", decimal_comma=True)
    assert tilt().apply(tl.read(tmp_path / "rows.csv", decimal=","), "score") == pytest.approx(expected(), abs=1e-12)
    texts = new_rows().with_columns(pl.col("income").cast(pl.String).str.replace(".", ",", literal=True))
    texts.write_csv(tmp_path / "rows.csv", separator=";")
    with refused(TiltlensError, "'income'"):
        tilt().apply(tmp_path / "rows.csv", "score")


@pytest.mark.filterwarnings("ignore:.*missing:UserWarning")
def test_a_column_without_any_value_is_missing_numbers(tmp_path):
    rows = new_rows()[:20].with_columns(income=pl.lit(None, dtype=pl.Float64))
    rows.write_csv(tmp_path / "rows.csv")
    assert tilt().apply(tmp_path / "rows.csv", "score") == pytest.approx(tilt().apply(rows, "score"))


@cache
def conditional(**options):
    """Return a repair of people in the north or south alone."""
    table = lending(2500).with_columns(is_near=pl.col("area") != "east")
    return tl.audit(table, group="group", reference="b", scores="score", folds=None, where={"is_near": True})[
        "a"
    ].repair(**options)


def test_a_group_that_files_do_not_have_is_named(tmp_path):
    new_rows().drop("group").write_csv(tmp_path / "new.csv")
    with pytest.raises(TiltlensError, match="'group'"):
        tilt(use_group=True).apply(tmp_path / "new.csv", "score", group=["group"])


@pytest.mark.parametrize("options", [{}, {"threshold": 0.5}, {"use_group": True}])
@pytest.mark.parametrize("held", ["pandas", "csv files"], indirect=True)
def test_rows_that_break_a_condition_keep_their_scores(held, options, small_batches, tmp_path):
    made = conditional(**options)
    made.to_json(tmp_path / "repair.json")
    again, rows = tl.read_repair(tmp_path / "repair.json"), lending(300, seed=4)
    assert again.given == {"is_near": "True"}
    assert "fitted on a condition" in {note.code for note in made.notes}
    assert again.notes == made.notes
    rows = rows.with_columns(is_near=pl.col("area") != "east")
    near, score = rows["is_near"].to_numpy(), rows["score"].to_numpy()
    group = {"group": "group"} if "use_group" in options else {}
    with pytest.warns(UserWarning, match=f"{(~near).sum()} of 300 rows .*'is_near' = 'True'"):
        found = again.apply(held(rows), "score", **group)
    assert found[~near].tolist() == (score if "threshold" not in options else score >= 0.5)[~near].tolist()
    assert found[near] == pytest.approx(again.apply(rows.filter("is_near"), "score", **group), abs=1e-12)
    with pytest.warns(UserWarning, match="cannot be checked"):
        again.apply(rows.drop("is_near"), "score", **group)


def test_an_evaluation_is_of_rows_that_meet_the_condition():
    rows = lending(900, seed=4).with_columns(is_near=pl.col("area") != "east")
    near = rows.filter("is_near")
    evaluation = conditional().evaluate(rows, "score", "group")
    assert evaluation.table.equals(conditional().evaluate(near, "score", "group").table)
    note, outside = evaluation.notes[0], 900 - near.height
    assert (note.code, note.values["outside"], note.values["rows"]) == ("condition not met", outside, 900)
    assert evaluation.repair.given == {"is_near": "True"}
