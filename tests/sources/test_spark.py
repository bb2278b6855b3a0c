"""Spark gives the numbers of memory: partitions become sums where they lie, whatever their number and size."""

import json
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from functools import cache

import numpy as np
import polars as pl
import pytest
from tests.people import FEATURES, assert_same_numbers, classed, lending, note_codes
from tests.repair.test_apply import expected, many_kinds, new_rows, tilt

import tiltlens as tl
from tiltlens._results.codec import to_plain

pytest.importorskip("pyspark", reason="needs pyspark")
pytestmark = [pytest.mark.java, pytest.mark.filterwarnings("ignore")]  # Spark warns of pandas, sockets and more

PEOPLE = {"group": "group", "reference": "B", "scores": "score", "features": FEATURES}
WAYS = {
    "fitted": {},
    "known, weights": {"propensity": "chance", "sample_weight": "uneven"},
    "classes, plug-in": {"scores": ["none", "some", "all"], "favourable": "all", "folds": None, "propensity": "chance"},
    "clusters, exempt factors": {"propensity": "chance", "clusters": "household", "exempt": "income"},
    "decisions along time": {"features": [], "threshold": 0.5, "outcome": "repaid", "periods": "month"},
    "probabilities of groups": {"group": {"A": "p_a", "B": "p_b"}, "known_groups": "group", "features": []},
}

QUESTION = {"group": "group", "reference": "b", "scores": "score", "features": ["region", "job", "amount", "years"]}


@cache
def rows():
    """Return people with everything that an audit may be asked about."""
    random = np.random.default_rng(4)
    size = classed().height
    return classed().with_columns(
        household=pl.Series(random.integers(0, 150, size)),
        month=pl.Series(random.choice(["2024-01", "2024-02"], size)),
        repaid=pl.Series((random.random(size) < classed()["score"].to_numpy()).astype(int)),
        p_a="chance",
        p_b=1 - pl.col("chance"),
    )


@cache
def in_memory(way):
    return tl.audit(rows(), **PEOPLE | WAYS[way]).to_dict()


@pytest.fixture(scope="module")
def skewed(spark):
    """Return people on six partitions, by their city: some empty, some larger than others."""
    from pyspark.sql import functions

    frame = spark.createDataFrame(rows().to_arrow()).repartition(6, "city").cache()
    assert frame.rdd.getNumPartitions() == 6
    sizes = [row["count"] for row in frame.groupBy(functions.spark_partition_id()).count().collect()]
    assert len(sizes) < 6
    assert max(sizes) > 1.5 * min(sizes)
    return frame


@pytest.mark.parametrize("way", list(WAYS))
def test_spark_gives_the_audit_of_memory_on_skewed_and_empty_partitions(skewed, way):
    found = tl.audit(skewed, **PEOPLE | WAYS[way])
    assert_same_numbers(found.to_dict(), in_memory(way))


def test_executors_count_the_decisions_of_all_rows_though_few_are_sampled(spark):
    table = lending().select("group", "score")
    options = {"group": "group", "reference": "b", "scores": "score", "threshold": 0.5}
    found = tl.audit(spark.createDataFrame(table.to_arrow()).repartition(7), **options, sample_rows=1_000)["a"]
    assert "sampled" in note_codes(found)
    assert_same_numbers(to_plain(found.decision_table), to_plain(tl.audit(table, **options)["a"].decision_table))


def test_two_models_are_compared_on_the_same_rows_of_spark(skewed):
    options = PEOPLE | {"propensity": "chance"}
    found, expected = (
        tl.compare(*(tl.audit(data, **options | {"scores": scores}) for scores in ("score", "some")))
        for data in (skewed, rows())
    )
    assert found.paired
    assert_same_numbers(found.to_dict()["comparisons"], expected.to_dict()["comparisons"])


def test_a_row_without_an_order_is_named_by_its_place_in_a_batch(skewed):
    from pyspark.sql import functions

    broken = skewed.withColumn("score", functions.when(functions.col("owner"), 1.5).otherwise(functions.col("score")))
    with pytest.raises(tl.TiltlensError, match=r"`scores`.* got 1\.5 in row \d+"):
        tl.audit(broken, **PEOPLE)


def test_a_mistake_on_a_worker_is_said_once_in_our_words(skewed):
    from pyspark.sql import functions

    percent = skewed.withColumn("score", 100 * functions.col("score"))
    with pytest.raises(tl.TiltlensError, match=r"^`scores`.*, got \d+"):
        tl.audit(percent, **PEOPLE)


def test_a_query_that_fails_is_a_clear_error(skewed):
    from pyspark.sql import functions

    broken = skewed.withColumn("score", functions.raise_error(functions.lit("no such score")).cast("double"))
    with pytest.raises(tl.TiltlensError, match="Spark cannot run"):
        tl.audit(broken, **PEOPLE)


@pytest.mark.parametrize("argument", ["propensity", "sample_weight", "group", "scores"])
def test_arrays_beside_a_spark_frame_are_refused_at_once(skewed, argument):
    told = rf"`{argument}` must be the name of a column of data that is read in batches, got"
    with pytest.raises(tl.TiltlensError, match=told):
        tl.audit(skewed, **PEOPLE | {argument: classed()["chance"].to_numpy()})


def test_no_rows_are_an_error(skewed):
    with pytest.raises(tl.TiltlensError, match="`data`"):
        tl.audit(skewed.where("score > 2"), **PEOPLE)


@pytest.mark.parametrize("options", [{}, {"use_group": True}], ids=["blind", "group"])
def test_spark_repairs_as_memory_does(spark, options):
    data = spark.createDataFrame(new_rows().to_arrow()).repartition(3)
    group = {"group": "group"} if options else {}
    with nullcontext() if options else pytest.warns(UserWarning, match="18 of 200.*'area'"):
        found = tilt(**options).apply(data, "score", **group)
    assert found.columns == [*data.columns, "score_repaired"]
    repaired = pl.DataFrame(found.toArrow()).sort("id")["score_repaired"].to_numpy()
    assert repaired == pytest.approx(expected(**options), abs=1e-12)


def test_columns_that_a_repair_does_not_use_stay_as_they_are(spark):
    data = spark.createDataFrame(many_kinds().to_arrow()).coalesce(1)
    assert tilt().apply(data, "score").drop("score_repaired").toArrow() == data.toArrow()


def test_rows_unlike_the_audited_ones_are_warned_of(spark):
    turned = new_rows().with_columns(score=1 - pl.col("score"))
    with pytest.warns(UserWarning, match="'a' against 'b'"):
        tilt().apply(spark.createDataFrame(turned.to_arrow()), "score")


def test_mistakes_in_a_repair_are_named(spark, tmp_path):
    data = spark.createDataFrame(new_rows().head(20).to_arrow()).coalesce(1)
    with pytest.raises(tl.TiltlensError, match="`out`"):
        tilt().apply(data, "score", out=tmp_path / "out.parquet")
    with pytest.raises(tl.TiltlensError, match="`scores`"):
        tilt().apply(data, np.ones(20) / 2)
    with pytest.raises(tl.TiltlensError, match="'income'"):
        tilt().apply(data.drop("income"), "score")
    with pytest.raises(tl.TiltlensError, match="'score_repaired'"):
        tilt().apply(data.withColumnRenamed("id", "Score_Repaired"), "score")
    broken = data.withColumn("score", 2 + data["score"])
    with pytest.raises(Exception, match=r"`scores`.* 2\.\d+ in row 0"):
        tilt().apply(broken, "score").collect()


SCRIPT = """
import json, os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
import polars as pl
from pyspark.sql import SparkSession
import tiltlens as tl
data = pl.read_parquet(sys.argv[1])
arguments = json.loads(sys.argv[2])
spark = SparkSession.builder.{connection}.config("spark.ui.enabled", "false").getOrCreate()
frame = spark.createDataFrame(data.to_arrow()).repartition(4)
{disturbance}
found = tl.audit(frame, **arguments)
found.to_json(sys.argv[3])
spark.stop()
"""


def audited_by(script, tmp_path):
    data, out = tmp_path / "people.parquet", tmp_path / "audit.json"
    classed().write_parquet(data)
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), str(data), json.dumps(PEOPLE), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(out.read_text()), done.stderr


@pytest.mark.slow
def test_spark_connect_gives_the_audit_of_memory(tmp_path):
    pytest.importorskip("grpc", reason="needs `pip install 'pyspark[connect]'`")
    found, _ = audited_by(SCRIPT.format(connection='remote("local[2]")', disturbance=""), tmp_path)
    assert_same_numbers(found["comparisons"], as_json(in_memory("fitted")["comparisons"]))


@pytest.mark.slow
def test_spark_connect_repairs_as_memory_does(tmp_path):
    pytest.importorskip("grpc", reason="needs `pip install 'pyspark[connect]'`")
    new_rows().write_parquet(tmp_path / "people.parquet")
    tilt().to_json(tmp_path / "repair.json")
    script = """
    import os, sys
    os.environ["PYSPARK_PYTHON"] = sys.executable
    import polars as pl
    from pyspark.sql import SparkSession
    import tiltlens as tl
    spark = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    frame = spark.createDataFrame(pl.read_parquet("people.parquet").to_arrow()).repartition(2)
    pl.DataFrame(tl.read_repair("repair.json").apply(frame, "score").toArrow()).write_parquet("repaired.parquet")
    spark.stop()
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    found = pl.read_parquet(tmp_path / "repaired.parquet").sort("id")
    assert found["score_repaired"].to_numpy() == pytest.approx(expected(), abs=1e-12)


@pytest.mark.slow
def test_an_executor_that_is_killed_changes_no_number(tmp_path):
    killing = """
import threading, time, subprocess as sp, signal
def kill():
    tracker, seen = spark.sparkContext.statusTracker(), set()
    while len(seen) < 2:  # the results of the first stage are lost with the executor
        time.sleep(0.05)
        seen.update(tracker.getActiveStageIds())
    everyone = sp.run(["ps", "-ewwo", "pid,args"], capture_output=True, text=True).stdout.splitlines()
    app = spark.sparkContext.applicationId
    executors = [l for l in everyone if "CoarseGrainedExecutorBackend" in l and app in l and "java" in l]
    if executors:
        os.kill(int(executors[0].split()[0]), signal.SIGKILL)
        print("KILLED", file=sys.stderr)
threading.Thread(target=kill, daemon=True).start()
"""
    script = SCRIPT.format(connection='master("local-cluster[2,1,1024]")', disturbance=killing)
    found, said = audited_by(script, tmp_path)
    assert "KILLED" in said
    assert_same_numbers(found["comparisons"], as_json(in_memory("fitted")["comparisons"]))


def as_json(summary):
    return json.loads(json.dumps(summary))


def test_blocks_of_columns_on_spark_are_those_of_memory(spark):
    codes = lending().drop_nans().to_dummies("region").drop("job").cast({pl.UInt8: pl.Int64})
    asked = {**QUESTION, "features": ["region", "years"], "blocks": {"region": ["region_*"]}, "categorical": "years"}
    found = tl.audit(spark.createDataFrame(codes.to_arrow()).repartition(3), **asked, folds=None)
    assert_same_numbers(found.to_dict(), tl.audit(codes, **asked, folds=None).to_dict())
