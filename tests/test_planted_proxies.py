"""The planted-proxy benchmark: its truths against other computations, its rule by hand, its protocol."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from planted_proxies import __main__ as command
from planted_proxies import environments, figure, scoring
from planted_proxies.asking import about, asked
from planted_proxies.runners import GAP, Answer, files, runner
from planted_proxies.scoring import ASKED, HARD, QUESTIONS, Question, best_cut, coverage, right_answers, scored
from planted_proxies.worlds import GROUP, WORLDS
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

SEEDS = range(3)


def answers(world, say):
    """Return what a tool says of every feature of a world, and of the group."""
    truths = WORLDS[world].truths
    found = {name: say(truth.carries) for name, truth in truths.items()}
    return found | {GROUP: say(world in ("direct", "varying"))}


def tool(say):
    """Return the draws of a tool that says the same in every draw."""
    return {world: {seed: answers(world, say) for seed in SEEDS} for world in WORLDS}


# Truths


def test_gap_of_a_smooth_score_against_quadrature():
    world = WORLDS["not direct"]
    spread = np.hypot(0.5, 0.4)  # of 0.5·used + 0.4·neutral, normal in either group

    def mean(shift):
        return quad(lambda z: norm.pdf(z) * expit(-0.3 + 0.5 * shift + spread * z), -9, 9)[0]

    gap = 0.8 * (mean(0.8) - mean(0.0))
    assert world.gap == pytest.approx(gap, abs=1e-9)
    assert world.truths["used"].alone == pytest.approx(gap, abs=1e-9)  # the score knows the group by it alone
    assert WORLDS["direct"].gap == pytest.approx(gap + 0.05, abs=1e-9)
    assert WORLDS["direct"].adjusted_gap == pytest.approx(0.05, abs=1e-9)
    for idle in ("ignored", "neutral", "noise 1"):
        assert world.truths[idle].alone == pytest.approx(0.0, abs=1e-9)


def test_three_way_xor_against_its_closed_form():
    gap = 0.25 * (expit(0.5) - expit(-0.5))
    for truth in (WORLDS["triple"].truths[name] for name in ("one", "two", "three")):
        assert truth.carries
        assert truth.alone == pytest.approx(0.0, abs=1e-12)
        assert truth.joint == pytest.approx(gap, abs=1e-12)


def test_a_feature_that_the_score_ignores_contributes_where_use_of_the_group_varies():
    world = WORLDS["varying"]
    mark = world.truths["mark"]
    assert (world.gap, world.adjusted_gap) == pytest.approx((0.1, 0.0319), abs=5e-5)
    assert (mark.alone, mark.joint, mark.use) == pytest.approx((0.0254, 0.0681, 0.0), abs=5e-5)
    draw = world.draw(0, 100_000)
    shows = (draw.table["mark"] == draw.audited)[draw.table["flag"] == 1]
    assert shows.mean() == pytest.approx(0.95, abs=0.005)


def test_stand_ins_are_not_used_and_others_as_much_as_they_say():
    for name in ("stand-in 0.5", "stand-in", "stand-in 0.95"):
        truth = WORLDS[name].truths["stand-in"]
        assert (truth.carries, truth.use, truth.joint) == (
            False,
            pytest.approx(0, abs=1e-6),
            pytest.approx(0, abs=1e-9),
        )
    for points in (1, 2, 4):
        truth = WORLDS[f"used a little {points}"].truths["stand-in"]
        assert truth.carries
        assert 100 * truth.use == pytest.approx(points, rel=0.02)


def test_scores_of_trees_have_steps_and_truths_against_a_large_sample():
    world = WORLDS["trees"]
    draw = world.draw(1, 200_000)
    assert np.unique(draw.scores).size < 10_000
    assert world.gap == pytest.approx(draw.scores[draw.audited].mean() - draw.scores[~draw.audited].mean(), abs=0.004)
    moved = draw.matrix.copy()
    places = [draw.inputs.index(name) for name in ("unused 1", "unused 2")]
    moved[:, places] = 0.0
    assert np.array_equal(draw.predict(moved), draw.scores)
    assert world.truths["unused 1"].alone > 0.05


def test_soft_groups_against_a_large_sample():
    draw = WORLDS["unobserved groups"].draw(1, 200_000)
    b, w = draw.chance, draw.scores
    assert WORLDS["unobserved groups"].gap == pytest.approx(np.cov(b, w)[0, 1] / (b.mean() * (1 - b.mean())), abs=0.003)
    for name in ("used", "ignored"):  # by its definition, in 200 cells of the feature
        cell = np.searchsorted(np.quantile(draw.table[name], np.linspace(0, 1, 201)[1:-1]), draw.table[name])
        count = np.bincount(cell)
        e, m = (np.bincount(cell, one)[cell] / count[cell] for one in (b, w))
        left = np.mean((b - e) * (w - m)) / np.mean(b * (1 - b) + (b - e) ** 2)
        truth = WORLDS["unobserved groups"].truths[name].alone
        assert truth == pytest.approx(WORLDS["unobserved groups"].gap - left, abs=0.003)


def test_a_draw_is_what_its_world_says():
    draw = WORLDS["direct"].draw(0, 500)
    np.testing.assert_allclose(draw.predict(draw.matrix), draw.scores)
    assert draw.inputs == [*draw.features, GROUP]
    assert WORLDS["direct"].draw(0, 500).table["used"] == pytest.approx(WORLDS["not direct"].draw(0, 500).table["used"])
    assert set(draw.features) == set(WORLDS["direct"].truths)


# The scoring rule


def test_who_knows_the_truth_is_always_right():
    draws = tool(lambda carries: Answer(1.0 if carries else 0.1, verdict=carries))
    for question in (*QUESTIONS, *HARD):
        assert right_answers(question, draws) == (1.0, 1.0, len(SEEDS))
    assert scoring.false_evidence(draws) == 0.0
    assert scoring.missed_evidence(draws) == 0.0


@pytest.mark.parametrize("verdict", [True, False])
def test_who_calls_everything_or_nothing_is_never_right(verdict):
    draws = tool(lambda _: Answer(1.0, verdict=verdict))
    for question in (*QUESTIONS, *HARD):
        assert right_answers(question, draws) == (0.0, 0.0, len(SEEDS))


def test_best_cut_by_hand():
    found = [([Answer(high)], [Answer(low)]) for high, low in ((5, 1), (-2, 1), (3, 2.5), (0.5, 0.9))]
    assert best_cut(found) == 0.5  # a cut of 2 is right of the first two, one of 3 of the first and the third


def test_a_tool_without_a_rule_has_no_share_of_its_own():
    draws = tool(lambda carries: Answer(1.0 if carries else 0.1))
    assert right_answers(QUESTIONS[0], draws) == (None, 1.0, len(SEEDS))
    assert scoring.false_evidence(draws) is None


def test_a_tool_that_does_not_answer_is_not_counted():
    assert right_answers(Question("q", "pair", ("left",), ("right",)), {"pair": {0: {}}}) == (None, None, 0)


def test_coverage_is_that_of_the_intervals_given():
    draws = {"pair": {0: {"left": Answer(0.0, -0.1, 0.1), "used": Answer(0.0, 0.2, 0.3)}}}
    draws["direct"] = {0: {GROUP: Answer(0.0, 0.04, 0.06), GAP: Answer(0.0)}}
    draws["unobserved groups"] = {0: {"used": Answer(0.0, 9.0, 9.1)}}
    assert coverage(draws, takes_chances=False) == {"gap": None, "alone": 0.5, "direct": 1.0}
    assert coverage(draws, takes_chances=True)["alone"] == pytest.approx(1 / 3)


# Tools


@pytest.mark.parametrize("file", files())
def test_a_tool_is_one_file(file):
    words = about(file)
    assert all(words[key] for key in ("name", "page", "asked", "given"))
    assert callable(runner(file).run)
    assert runner(file).requires


def test_tiltlens_answers_of_every_feature():
    found = asked("tiltlens", "pair", 0, 1_000)
    assert set(found["answers"]) == {*WORLDS["pair"].truths, GROUP, GAP}
    assert found["answers"]["used"]["verdict"] is True


def test_a_tool_that_fails_in_a_draw_says_so(monkeypatch):
    monkeypatch.setattr(runner("shap_difference"), "run", lambda draw: 1 / 0)
    assert asked("shap_difference", "pair", 0, 100)["error"] == "ZeroDivisionError: division by zero"


def test_a_tool_that_cannot_be_installed_is_a_row_that_says_so(monkeypatch, tmp_path, capsys):
    message = "Looking in places\nERROR: No matching distribution found for shap==0.51.0 at https://a.b/simple\n"
    monkeypatch.setattr(environments, "_install", lambda *_: environments.reason_of(message))
    monkeypatch.setattr(figure, "write", lambda *_: None)
    page = tmp_path / "page.md"
    page.write_text("# Page\n<!-- printed: questions -->\nstale\n<!-- end -->\nafter\n")
    options = ["--tools", "shap_difference", "--out", str(tmp_path), "--environments", str(tmp_path / "e")]
    assert command.main([*options, "--page", str(page)]) == 0
    reason = "No matching distribution found for shap==0.51.0 at …"
    assert f"not run: {reason}" in capsys.readouterr().out
    assert f"not run: {reason}" in page.read_text()
    assert "stale" not in page.read_text()
    (row,) = json.loads((tmp_path / "results.json").read_text())
    assert row["failed"] == reason
    assert reason in (tmp_path / "results.csv").read_text()


def test_a_row_has_every_column():
    draws = [
        {"world": world, "seed": seed, "seconds": 1.0, "answers": {k: v._asdict() for k, v in said.items()}}
        for world in ASKED
        for seed in SEEDS
        for said in [answers(world, lambda carries: Answer(1.0 if carries else 0.1, 0.0, 1.0, carries, "word"))]
    ]
    words = {**about("tiltlens"), "seeds": len(SEEDS), "draws": draws}
    row = scored(words)
    assert row["separated"] == row["separated_at_best"] == len(QUESTIONS)
    assert row["questions"][HARD[0].name] == {"own": None, "best": None, "draws": 0}
    assert row["seconds"] == 1.0
    assert [one["text"] for one in figure.squares([row], (QUESTIONS[0], HARD[0]))] == ["100", "–"]
    assert len(figure.chart([row]).to_dict()["hconcat"]) == 2
    tables = command.printed([words], [row])
    assert "| 100/100 |" in tables["questions"]
    assert "word 100%" in tables["words"]


def test_no_seed_is_asked_twice_and_failures_are_printed(monkeypatch, tmp_path, capsys):
    calls = []

    def run(arguments, stdout, **_):
        seeds = arguments[arguments.index("--seeds") + 1 :]
        calls.append(seeds)
        stdout.write(json.dumps({**about("oaxaca_each"), "rows": 500}) + "\n")
        lines = [{"world": world, "seed": int(seed), "error": "singular"} for seed in seeds for world in WORLDS]
        stdout.writelines(json.dumps(line) + "\n" for line in lines)
        return SimpleNamespace(returncode=0, stderr="")

    monkeypatch.setattr(command, "environment", lambda *_: environments.Environment("python", {}))
    monkeypatch.setattr(command.subprocess, "run", run)
    monkeypatch.setattr(figure, "write", lambda *_: None)
    options = ["--tools", "oaxaca_each", "--out", str(tmp_path), "--rows", "500", "--require", "tiltlens"]
    for seeds in (["--seeds", "2"], ["--seeds", "9", "--others", "3"], ["--seeds", "3"]):
        assert command.main([*options, *seeds]) == 0
    assert calls == [["0", "1"], ["2"]]
    assert f"failed in {3 * len(WORLDS)} draws" in capsys.readouterr().out
    assert command.read(tmp_path / "oaxaca_each.jsonl")["seeds"] == 3
