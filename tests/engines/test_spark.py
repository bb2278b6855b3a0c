"""Spark gives the numbers of memory: partitions become sums where they lie, whatever their number and size."""

import json
import os
import subprocess
import sys
import textwrap

import pytest
from tests.streams.test_agreement import PEOPLE, WAYS, classed, in_memory
from tests.streams.test_fitted import QUESTION, lending
from tests.test_audit_engines import assert_same_numbers

import tiltlens as tl

pytest.importorskip("pyspark", reason="needs pyspark")
pytestmark = [pytest.mark.java, pytest.mark.filterwarnings("ignore")]  # Spark warns of pandas, sockets and more


FITTED = QUESTION | {"audited": None, "total_shares": False}


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def skewed(spark):
    """Return people on six partitions, by their city: some empty, some larger than others."""
    from pyspark.sql import functions

    frame = spark.createDataFrame(classed().to_arrow()).repartition(6, "city").cache()
    assert frame.rdd.getNumPartitions() == 6
    sizes = [row["count"] for row in frame.groupBy(functions.spark_partition_id()).count().collect()]
    assert len(sizes) < 6
    assert max(sizes) > 1.5 * min(sizes)
    return frame


@pytest.mark.parametrize("way", ["known", "classes, plug-in"])
def test_spark_gives_the_audit_of_memory_on_skewed_and_empty_partitions(skewed, way):
    found = tl.audit(skewed, **PEOPLE | WAYS[way])
    assert_same_numbers(found.to_dict(), in_memory(way))


def test_a_mistake_on_a_worker_is_said_once_in_our_words(skewed):
    from pyspark.sql import functions

    percent = skewed.withColumn("score", 100 * functions.col("score"))
    with pytest.raises(tl.TiltlensError, match="`scores` must give scores between 0 and 1"):
        tl.audit(percent, **PEOPLE)


def test_a_query_that_fails_is_a_clear_error(skewed):
    from pyspark.sql import functions

    broken = skewed.withColumn("score", functions.raise_error(functions.lit("no such score")).cast("double"))
    with pytest.raises(tl.TiltlensError, match="Spark must be able to run the audit"):
        tl.audit(broken, **PEOPLE)


def test_few_rows_on_spark_are_brought_together_for_a_fit(skewed):
    fitted = PEOPLE | {"membership": None, "total_shares": False}
    assert_same_numbers(tl.audit(skewed, **fitted).to_dict(), tl.audit(classed(), **fitted).to_dict())


def test_a_model_fitted_on_the_driver_is_applied_by_the_executors(spark, monkeypatch):
    monkeypatch.setattr("tiltlens.streams.sources.COLLECTED_ROWS", 100)
    rows = lending(6_000).drop_nans()  # Spark has no NaN that is a missing value
    expected = tl.audit(tl.stream(rows), **FITTED).to_dict()
    frame = spark.createDataFrame(rows.to_arrow())
    assert_same_numbers(tl.audit(frame.coalesce(1), **FITTED).to_dict(), expected)
    parts = tl.audit(frame.repartition(5, "region"), **FITTED)["a"].input_divergence  # another sample
    one = expected["comparisons"]["a"]["input_divergence"]
    assert abs(parts.value - one["value"]) < 0.5 * (one["high"] - one["low"])


def test_membership_as_an_array_is_refused_at_once(skewed):
    with pytest.raises(tl.TiltlensError, match="`membership` must be the name of a column of streamed data, got"):
        tl.audit(skewed, **PEOPLE | {"membership": classed()["chance"].to_numpy()})


def test_no_rows_are_an_error(skewed):
    with pytest.raises(tl.TiltlensError, match="`data` must have rows"):
        tl.audit(skewed.where("score > 2"), **PEOPLE)


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
    assert_same_numbers(found["comparisons"], as_json(in_memory("known")["comparisons"]))


@pytest.mark.slow
def test_an_executor_that_is_killed_changes_no_number(tmp_path):
    killing = """
import threading, time, subprocess as sp, signal
def kill():
    time.sleep(4)
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
    assert_same_numbers(found["comparisons"], as_json(in_memory("known")["comparisons"]))


def as_json(summary):
    return json.loads(json.dumps(summary))
