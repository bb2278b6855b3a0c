"""Invalid and degenerate worlds: a defined answer or a clear error, never NaN, never a bare infinity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.worlds import ALL, SMOOTH, random_world

import tiltlens as tl
from tiltlens.errors import DistributionError, NotBinaryError, NotSmoothError, SupportError, WeightsError

OK = ([0.5, 0.5], [0.4, 0.6], [0.2, 0.7])


@pytest.mark.parametrize(
    ("p0", "p1", "channel", "message"),
    [
        ([0.5, 0.4], OK[1], OK[2], "`p0` must sum to 1, got a sum of 0.9"),
        ([1.5, -0.5], OK[1], OK[2], "`p0` must not be negative, got -0.5 at position 1"),
        (OK[0], [0.5, np.nan], OK[2], "`p1` must be finite, got nan at position 1"),
        (OK[0], [0.5, np.inf], OK[2], "`p1` must be finite, got inf at position 1"),
        (OK[0], [0.2, 0.3, 0.5], OK[2], "`p1` must be as long as `p0`, got 3 and 2"),
        (OK[0], OK[1], [0.2, 0.3, 0.5], "`channel` must be as long as `p0`, got 3 and 2"),
        ([], [], [], r"`p0` must not be empty, got shape \(0,\)"),
        (OK[0], OK[1], [0.2, 1.2], r"`channel` must lie in \[0, 1\], got 1.2 at position 1"),
        (OK[0], OK[1], [0.2, -0.1], r"`channel` must lie in \[0, 1\], got -0.1"),
        (OK[0], OK[1], [[0.2, 0.9], [0.5, 0.5]], "each row of `channel` must sum to 1, got a sum of 1.1"),
        (OK[0], OK[1], [[1.0], [1.0]], "`channel` must have at least two outcomes, got K = 1"),
        ([[0.5, 0.5]], OK[1], OK[2], r"`p0` must have 1 dimension\(s\), got shape \(1, 2\)"),
        ("half", OK[1], OK[2], "`p0` must be an array of numbers, got str"),
    ],
)
def test_bad_worlds_are_named(p0, p1, channel, message):
    with pytest.raises(DistributionError, match=message) as caught:
        tl.World(p0, p1, channel)
    assert "\nHint: " in str(caught.value)


@pytest.mark.parametrize("method", ["correction", "path"])
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((0, -1, 0, 1), "must be finite and not negative"),
        ((0, np.inf, 0, 1), "must be finite and not negative"),
        ((0, 0, 0, 0), "must not all be zero"),
        ((1, 1), "must be four numbers"),
        (3.0, "must be four numbers"),
    ],
)
def test_bad_weights_are_named(method, weights, message):
    with pytest.raises(WeightsError, match=message):
        getattr(tl.World(*OK), method)(weights)


def test_an_unknown_divergence_is_named(refused):
    with refused(tl.TiltlensError, "`divergence`", "'chi2'"):
        tl.World(*OK).path(divergence="wasserstein")


def test_bad_perturbations_and_distributions_are_named(refused):
    world = tl.World(*OK)
    with refused(DistributionError, "`f`", "1.0"):
        world.slope([1.0, 1.0])
    with refused(tl.TiltlensError, "`epsilon`"):
        world.perturb([1.0, -1.0], -0.1)
    with refused(DistributionError, "`q`", "`p0`"):
        world.objective([0.2, 0.3, 0.5])


@pytest.mark.parametrize("divergence", ["kl", "chi2"])
def test_disjoint_supports_are_an_error_where_the_divergence_is_infinite(refused, divergence):
    world = tl.World([0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0.2, 0.4, 0.6, 0.8])
    with refused(SupportError, f"`{divergence}`", "atom 0"):
        world.correction((0, 1, 0, 1), divergence)
    with refused(SupportError, "the objective"):
        world.objective(world.p0, (0, 1, 0, 1), divergence)
    assert world.correction((0, 0, 0, 1), divergence).descent_rate < 0  # the outputs alone are fine


@pytest.mark.parametrize("divergence", ["hellinger", "js", "reverse_kl"])
def test_disjoint_supports_have_an_answer_where_the_divergence_is_bounded(divergence):
    world = tl.World([0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5], [0.2, 0.4, 0.6, 0.8])
    assert np.isfinite(world.correction((0, 1, 0, 1), divergence).values).all()


@pytest.mark.parametrize("divergence", ["kl", "chi2"])
def test_an_outcome_the_reference_group_never_has_is_an_error(divergence):
    world = tl.World([0.5, 0.5], [1, 0], [0.0, 0.7])
    with pytest.raises(SupportError, match="is infinite: outcome 1"):
        world.correction((0, 0, 0, 1), divergence)


@pytest.mark.parametrize("divergence", SMOOTH)
def test_identical_groups_have_nothing_to_correct(divergence):
    p = np.random.default_rng(0).dirichlet(np.ones(50))
    world = tl.World(p, p, np.random.default_rng(1).random(50))
    for weights in [(0, 1, 0, 1), (0, 0, 0, 1), (0, 1, 0, 0), (1, 0, 0, 0)]:
        c = world.correction(weights, divergence)
        assert c.nothing_to_correct
        assert (c.values == 0).all()
        assert (c.descent_rate, c.epsilon_max) == (0, 0)
        assert world.perturb(c.values, c.epsilon_max) == pytest.approx(p)


@pytest.mark.parametrize("divergence", SMOOTH)
@given(level=st.floats(0, 1))
def test_a_constant_model_leaves_only_the_input_term(divergence, level):
    shape = random_world(7, atoms=9)
    world = tl.World(shape.p0, shape.p1, np.full(9, level))
    assert world.correction((0, 0, 0, 1), divergence).nothing_to_correct
    both, inputs = world.correction((0, 1, 0, 1), divergence), world.correction((0, 1, 0, 0), divergence)
    assert both.values == pytest.approx(inputs.values, abs=1e-9)
    assert np.isfinite(both.values).all()


def test_a_constant_model_has_the_papers_names_without_nan():
    world = tl.World(OK[0], OK[1], [0.3, 0.3])
    c = world.correction()
    assert (c.rho_m, c.a1, c.b1, c.n_m) == (0, 0, 0, 0)
    assert c.a2 == pytest.approx(-c.descent_rate)
    assert c.n_l == pytest.approx(1 / c.descent_rate)
    assert (c.f_m(world.channel[:, 1]) == 0).all()
    for level in (0.0, 1.0):
        extreme = tl.World(OK[0], OK[1], [level, level]).correction()
        assert (extreme.rho_m, extreme.b1) == (0, 0)
        assert extreme.g_m([0, 1]) == pytest.approx([0, 0])


def test_equal_outputs_without_input_term_are_no_disparity():
    """Y0 = Y1 and λ2 = 0: every f would be optimal in the paper; the answer is an explicit zero."""
    world = tl.World([0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.2, 0.5, 0.8])
    c = world.correction((0, 0, 0, 1))
    assert c.nothing_to_correct
    assert (c.values == 0).all()


def test_atoms_the_audited_group_does_not_reach_get_no_correction():
    world = tl.World([0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.2, 0.4, 0.9])
    for divergence in SMOOTH:
        assert world.correction(divergence=divergence).values[2] == 0


def test_the_papers_names_exist_for_binary_kl_only(refused):
    with refused(NotBinaryError, "`rho_m`"):
        _ = random_world(0, outcomes=3).correction().rho_m
    with pytest.raises(NotBinaryError, match="`a1`"):
        _ = random_world(0).correction(divergence="js").a1
    with pytest.raises(AttributeError, match="no attribute 'rho'"):
        _ = random_world(0).correction().rho


def test_total_variation_refuses_where_it_has_no_derivative():
    kinked = tl.World([0.3, 0.3, 0.4], [0.3, 0.2, 0.5], [0.2, 0.5, 0.9])
    with pytest.raises(NotSmoothError, match="P0 = P1 on some atom"):
        kinked.correction((0, 1, 0, 0), "tv")
    with pytest.raises(NotSmoothError, match="λ3 > 0"):
        kinked.correction((0, 0, 1, 1), "tv")
    same = tl.World([0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.2, 0.5, 0.8])
    with pytest.raises(NotSmoothError, match="Y0 = Y1 for some outcome"):
        same.correction((0, 0, 0, 1), "tv")


def test_total_variation_says_when_p0_is_already_optimal():
    c = random_world(3).correction((100, 1, 0, 1), "tv")
    assert c.nothing_to_correct


def test_vanishing_probabilities_make_no_warning():
    world = tl.World([1 - 1e-310, 1e-310], [0.5, 0.5], [0.2, 0.9])
    for divergence in SMOOTH:
        assert np.isfinite(world.correction(divergence=divergence).values).all()
    tiny = tl.World([1 - 1e-200, 1e-200], [0.5, 0.5], [0.2, 0.9])
    for divergence in ALL:
        assert np.isfinite(tiny.path((1, 1, 0, 1), divergence).objective)


def test_a_world_with_one_atom_is_defined():
    world = tl.World([1.0], [1.0], [0.3])
    assert world.correction().nothing_to_correct
    for divergence in ALL:
        assert world.path((1, 1, 1, 1), divergence).q == pytest.approx([1.0])


@pytest.mark.parametrize("rare", [1e-7, 1e-10, 1e-14])
@pytest.mark.parametrize("column", [0, 1])
def test_a_rare_outcome_keeps_the_correction_centred(rare, column):
    channel = np.array([[1.0, 0.0], [1 - rare, rare]])[:, :: 1 if column else -1]
    world = tl.World([0.5, 0.5], [0.3, 0.7], channel)
    for divergence in SMOOTH:
        c = world.correction((0, 0, 0, 1), divergence)
        assert world.slope(c.values, (0, 0, 0, 1), divergence) == pytest.approx(c.descent_rate, rel=1e-6)
        assert np.abs(c.values) == pytest.approx([1, 1])


@pytest.mark.parametrize("tiny", [1e-16, 1e-20, 1e-100, 1e-189])
def test_a_vanishing_atom_has_a_finite_step(tiny):
    world = tl.World([1 - tiny, tiny], [0.5, 0.5], [0.2, 0.9])
    for divergence in ("kl", "js", "hellinger"):
        c = world.correction(divergence=divergence)
        assert np.isfinite(c.values).all()
        assert c.epsilon_max >= 0
        assert world.perturb(c.values, c.epsilon_max).sum() == pytest.approx(1)
    for divergence in SMOOTH:
        reverse = tl.World([0.5, 0.5], [1 - tiny, tiny], [0.2, 0.9])
        assert np.isfinite(reverse.correction(divergence=divergence).values).all()


def test_a_small_input_weight_still_points_the_way_where_the_model_is_constant():
    """What is rounding noise is judged beside the size of its own term, not beside 1."""
    world = tl.World([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [0.4, 0.4, 0.4])
    exact = world.correction((0, 1, 0, 0))
    for weight in (1e-8, 1e-12):
        c = world.correction((0, weight, 0, 1 / weight))
        assert c.values == pytest.approx(exact.values, abs=1e-6)
        assert c.descent_rate == pytest.approx(weight * exact.descent_rate)


def test_a_perturbation_off_the_support_cannot_hide_a_wrong_mean():
    world = tl.World([0.5, 0.5, 0], [0.3, 0.3, 0.4], [0.1, 0.2, 0.3])
    with pytest.raises(DistributionError, match="must have mean 0"):
        world.perturb([1, 1, 1e12], 0.1)


def test_single_precision_probabilities_are_accepted_and_masked_ones_are_not(refused):
    world = tl.World(
        np.full(10, 0.1, np.float32), np.full(10, 0.1, np.float32), np.linspace(0, 1, 10, dtype=np.float32)
    )
    assert world.p0.sum() == pytest.approx(1, abs=1e-15)
    with refused(DistributionError):
        tl.World(np.ma.array([0.5, 0.5], mask=[True, False]), [0.5, 0.5], [0.1, 0.2])


@pytest.mark.parametrize("weights", [("a", "b", "c", "d"), [[1], [2, 3]], (1j, 0, 0, 1), None, (1e308,) * 4])
def test_weights_of_any_kind_are_checked(refused, weights):
    for call in (tl.World(*OK).correction, tl.World(*OK).path, lambda w: tl.World(*OK).sweep([w])):
        with pytest.raises(WeightsError, match="`weights` must"):
            call(weights)
    with refused(WeightsError):
        tl.World(*OK).sweep(3)


def test_a_missing_name_of_the_paper_is_a_missing_attribute():
    assert not hasattr(random_world(0, outcomes=3).correction(), "rho_m")
    assert hasattr(random_world(0).correction(), "rho_m")
