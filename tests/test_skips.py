"""The skip policy itself: a skipped test fails the run where skips are forbidden."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(("forbidden", "code"), [("", 0), ("1", 1)])
def test_a_skip_fails_the_run_only_where_skips_are_forbidden(pytester, monkeypatch, forbidden, code):
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makepyfile("import pytest\n@pytest.mark.skip(reason='no browser')\ndef test_it(): ...\ndef test_b(): ...")
    monkeypatch.setenv("TILTLENS_FORBID_SKIPS", forbidden)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert result.ret == code
    result.assert_outcomes(passed=1, skipped=1)
