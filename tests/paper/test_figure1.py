"""The paper's Fig. 1: two ways from P0 on the simplex, and the level line between them and P1."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiltlens as tl
from tiltlens.paper.examples import WEIGHTS, level_line, simplex_paths

masses = st.lists(st.floats(0.05, 1.0), min_size=3, max_size=3)
scores = st.lists(st.sampled_from([0.05, 0.2, 0.4, 0.6, 0.9]), min_size=3, max_size=3)


def world_of(p0, p1, score):
    return tl.World(np.array(p0) / np.sum(p0), np.array(p1) / np.sum(p1), score)


@settings(max_examples=12)
@given(masses, masses, scores)
def test_the_ends_of_the_level_line_have_no_disparate_impact(p0, p1, score):
    world = world_of(p0, p1, score)
    found = simplex_paths(world)
    assert len(found.level) == (0 if len(set(score)) == 1 else 2)
    np.testing.assert_allclose(found.level @ world.channel[:, 1], world.y1[1], atol=1e-12)
    np.testing.assert_allclose(found.level.sum(axis=1), 1.0, atol=1e-12)
    assert (found.level >= 0).all()
    assert (found.level == 0).any(axis=1).all()


@settings(max_examples=12)
@given(masses, masses, scores)
def test_every_green_point_is_optimal_and_the_last_is_on_the_level_line(p0, p1, score):
    world = world_of(p0, p1, score)
    found = simplex_paths(world)
    np.testing.assert_array_equal(found.green[0], world.p0)
    assert found.green[-1] @ world.channel[:, 1] == pytest.approx(world.y1[1], abs=1e-9)
    random = np.random.default_rng(0)
    for weight, q in list(zip(found.green_weights, found.green, strict=True))[1:-1:7]:
        lam = (1.0, 0.0, 0.0, weight)
        least = world.objective(q, lam)
        for rival in random.dirichlet(np.ones(3), 5):
            near = 0.99 * q + 0.01 * rival
            assert world.objective(near, lam) >= least - 1e-9


@settings(max_examples=12)
@given(masses, masses, scores)
def test_the_red_way_leads_to_the_reference_group(p0, p1, score):
    world = world_of(p0, p1, score)
    found = simplex_paths(world)
    np.testing.assert_array_equal(found.red[-1], world.p1)
    distances = np.abs(found.red[[1, 30, -2]] - world.p1).max(axis=1)
    assert distances[-1] < 5e-3
    assert (np.diff(distances) <= 1e-12).all()


def test_ways_in_the_plane_are_barycentric():
    found = simplex_paths(tl.World([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.8, 0.5, 0.1])).to_dict()
    assert [(round(c["x"], 3), round(c["y"], 3)) for c in found["corners"]] == [(0, 0), (1, 0), (0.5, 0.866)]
    assert (found["p0"]["x"], found["p0"]["y"]) == pytest.approx((0.3 + 0.1, 0.2 * 0.75**0.5))
    assert len(found["green"]) == len(WEIGHTS) + 2
    assert found["green"][-1]["weight"] is None
    json.dumps(found, allow_nan=False)


def test_a_world_no_change_can_repair_has_no_green_end():
    found = simplex_paths(tl.World([0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.2, 0.4, 0.9]))
    assert found.green_weights[-1] < np.inf


def test_other_worlds_are_refused():
    with pytest.raises(tl.TiltlensError, match="3 atoms and 2 outcomes"):
        simplex_paths(tl.World([0.5, 0.5], [0.2, 0.8], [0.1, 0.9]))


def test_a_level_beyond_the_scores_meets_no_edge():
    assert level_line(np.array([0.1, 0.2, 0.3]), 0.9).shape == (0, 3)
