"""Skips are visible, and forbidden where TILTLENS_FORBID_SKIPS is set. Texts are those of `wording.txt`."""

import contextlib
import os
import shutil
import sys

import pytest
from hypothesis import HealthCheck, settings

NEEDS = {
    "browser": ("chromium", "Debian's package `chromium`"),
    "postgres": ("initdb", "Debian's package `postgresql`"),
    "java": ("java", "Debian's package `openjdk-17-jre-headless`"),
}

settings.register_profile(
    "tiltlens", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], max_examples=40
)
settings.load_profile("tiltlens")


def pytest_collection_modifyitems(items):
    """Spark takes longest, and comes first; then the files that wait for a browser."""
    in_browser = {item.path for item in items if item.get_closest_marker("browser")}
    items.sort(key=lambda item: (item.get_closest_marker("java") is None, item.path not in in_browser))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With several workers, one of them starts Spark; other tests stay with those of their file."""
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return "spark" if "spark" in nodeid.rpartition("/")[2] else super()._split_scope(nodeid)

    return OneSpark(config, log)


def pytest_runtest_setup(item):
    for mark, (command, package) in NEEDS.items():
        if item.get_closest_marker(mark) and shutil.which(command) is None:
            pytest.skip(f"needs `{command}`: install {package}")


def pytest_sessionfinish(session, exitstatus):
    if os.environ.get("WRITE_WORDING"):
        from tests import wording

        wording.write()
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if skipped and os.environ.get("TILTLENS_FORBID_SKIPS"):
        reporter.write_line(f"TILTLENS_FORBID_SKIPS is set, but {len(skipped)} test(s) were skipped", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def worded(request, tmp_path_factory):
    """Return a function that asserts that a text, or a list of them, is the next one of this test in `wording.txt`."""
    from tests import wording

    folder, numbers = str(tmp_path_factory.getbasetemp()), iter(range(1, 1000))

    def check(texts):
        lines = [texts] if isinstance(texts, str) else list(texts)
        text = "\n".join(wording.without_accidents(line, folder) for line in lines).rstrip()
        assert text, "there is nothing to compare"
        assert text == wording.expected(request.node.nodeid, next(numbers), text)

    return check


@pytest.fixture
def refused(worded):
    """Return a context in which an error of a kind is raised that names the given keys, worded as in `wording.txt`."""

    @contextlib.contextmanager
    def context(kind, *keys):
        with pytest.raises(kind) as caught:
            yield caught
        message = str(caught.value)
        assert [key for key in keys if str(key) not in message] == [], message
        worded(message)

    return context


@pytest.fixture
def small_batches(monkeypatch):
    """Batches of 37 rows: no level, group or weight is in all of them."""
    from tiltlens._sources import tables

    monkeypatch.setattr(tables, "BATCH_ROWS", 37)


@pytest.fixture(scope="session")
def spark():
    """A Spark of two cores in this process; its tests are skipped where there is no Java."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    quiet = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "4")
    brief = quiet.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    session = brief.getOrCreate()  # the second compiler pays after minutes
    yield session
    session.stop()


@pytest.fixture
def held(request, tmp_path):
    """Return a function that holds a Polars frame in the way that a test's parameter names: see `people.SOURCES`."""
    from tests.people import ENGINES, FILES, in_files

    way = request.param
    if way in ENGINES:
        return ENGINES[way]
    if way in FILES:
        ending, parts = FILES[way]
        return lambda frame: in_files(frame, tmp_path, ending, parts)
    session = request.getfixturevalue("spark")
    return lambda frame: session.createDataFrame(frame.to_arrow()).repartition(5)


@pytest.fixture(scope="session")
def browser():
    """Debian's chromium, driven by Playwright; its tests are skipped where there is none."""
    from playwright.sync_api import sync_playwright
    from tests.browser import FLAGS

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield found
        found.close()
