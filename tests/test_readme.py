"""The numbers that the README shows are those the demo prints."""

from pathlib import Path

import pytest

from tiltlens.demo import paper_experiment

README = (Path(__file__).parent.parent / "README.md").read_text()


def test_the_readme_shows_what_the_demo_prints():
    summary = paper_experiment()["cross_fitted"]["comparisons"]["African-American"]
    shown = {}
    for line in README.splitlines():
        cells = [cell.strip() for cell in line.split("│")]
        if len(cells) == 7 and cells[1].startswith("+"):
            shown[cells[0]] = cells[1:]
    assert list(shown) == [row["feature"] for row in summary["proxies"]]
    for row in summary["proxies"]:
        gap, interval, shapley, share, total, verdict = shown[row["feature"]]
        assert gap == f"{100 * row['gap']:+.2f}"
        assert interval == f"[{100 * row['gap_low']:+.2f}, {100 * row['gap_high']:+.2f}]"
        assert shapley == f"{100 * row['gap_shapley']:+.2f}"
        assert float(share.rstrip(" %")) == pytest.approx(100 * row["share"], abs=2)  # folds differ between versions
        assert float(total.rstrip(" %")) == pytest.approx(100 * row["total_share"], abs=2)
        assert verdict == row["verdict"]
