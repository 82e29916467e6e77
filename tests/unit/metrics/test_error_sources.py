""""""

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from sage_cli.metrics.error_sources import ErrorSources, error_over


def sources(*parts):
    """Sources of one mean: variance and degrees of freedom each."""
    variances, freedoms = zip(*parts, strict=True)
    return ErrorSources(np.array(variances)[:, None], np.array(freedoms, float))


def parts(found):
    """Each source's variance at the first k, and its degrees of freedom."""
    return list(zip(found.variance_SK[:, 0].tolist(), found.freedom_S.tolist(), strict=True))


def test_howes_reach_adds_the_squares_of_the_sources_own_half_widths():
    found = sources((0.01, 2), (0.0025, 39))
    # t[.975] is 4.303 with 2 degrees of freedom and 2.023 with 39:
    # 18.51 x .01 + 4.091 x .0025 = .1954, its root .442
    assert found.reach(0.05)[0] == pytest.approx(0.442, abs=5e-4)
    assert found.error[0] == pytest.approx(np.sqrt(0.0125), rel=1e-14)


@pytest.mark.parametrize("mean", [1e-3, 0.02, 0.1, 0.5, 3.0])
@pytest.mark.parametrize("of", [
    [(0.01, 1)], [(0.01, 1), (0.01, 7)], [(0.0, 2), (0.01, 300)],
    [(0.02, 2), (1e-5, 1), (0.01, 39)],
])  # fmt: skip
def test_p_is_the_smallest_level_whose_interval_excludes_zero(mean, of):
    def half_width(alpha):
        return np.sqrt(sum(v * stats.t.isf(alpha / 2, free) ** 2 for v, free in of))

    expected = brentq(lambda log: half_width(np.exp(log)) - mean, -300, 0, xtol=1e-13)
    found = sources(*of)
    assert found.p(np.array([mean]))[0] == pytest.approx(np.exp(expected), rel=1e-8)
    assert found.p(np.array([-mean]))[0] == found.p(np.array([mean]))[0]
    alone = 2 * stats.t.sf(mean / np.sqrt(of[0][0] or 1), of[0][1])
    if len(of) == 1:
        assert found.p(np.array([mean]))[0] == pytest.approx(alone, rel=1e-8)


def test_nothing_that_varies_has_no_p():
    found = ErrorSources(np.array([[0.0, 0.01], [0.0, 0.02]]), np.array([1.0, 9.0]))
    p_K = found.p(np.array([0.5, 0.0]))
    assert np.isnan(p_K[0])
    assert p_K[1] == pytest.approx(1, abs=1e-9)


def test_the_sources_of_a_method_and_a_fixed_model_by_hand():
    # A's runs on two problems: (1, 1) and (1/2, 1/4); B, one run: (0, 1/2).
    # Between: means 1 and 3/8, variance 25/128, over 2 runs 25/256. Gaps 3/4 and 1/8: variance
    # 25/128, over 2 problems 25/256. Residual: each of A's four values is 1/16 off its run's and
    # its problem's mean, squares 4/256 over 1 degree of freedom, over 2 runs x 2 problems 1/256.
    a_IPK = np.array([[[1.0], [1.0]], [[0.5], [0.25]]])
    b_IPK = np.array([[[0.0], [0.5]]])
    expected = [(25 / 256, 1), (24 / 256, 1)]
    for sides in ((a_IPK, b_IPK), (b_IPK, a_IPK)):
        assert np.array(parts(error_over([sides]))) == pytest.approx(np.array(expected), rel=1e-14)


def test_each_side_has_its_own_seeds():
    # A's runs have means 1/4 and 3/4, variance 1/8 over 2 runs 1/16 with 1 degree of freedom. B's
    # three are 0, 0 and 3/8: variance 3/64 over 3 runs 1/64 with 2. Runs of a side differ by the
    # same on all problems, so there is no residual. Gaps: mean A is (1/4, 3/4) and mean B 1/8:
    # 1/8 and 5/8, variance 1/8 over 2 problems 1/16.
    a_IPK = np.array([[[0.0], [0.5]], [[0.5], [1.0]]])
    b_IPK = np.array([0.0, 0.0, 3 / 8])[:, None, None] * np.ones((3, 2, 1))
    expected = [(1 / 16, 1), (1 / 64, 2), (1 / 16, 1)]
    found = parts(error_over([(a_IPK, b_IPK)]))
    assert np.array(found) == pytest.approx(np.array(expected), rel=1e-14)


def test_pairs_leave_what_a_seed_does_to_both_sides_out():
    # Seeds move both sides by -1/4, 0 and 1/4; A is ahead by 1/8, and by 1/4 with the last seed.
    # Gaps 1/8, 1/8, 1/4: variance 1/192, over 3 pairs 1/576, with 2 degrees of freedom.
    seed_I = np.array([-0.25, 0.0, 0.25])[:, None, None]
    b_IPK = 0.5 + seed_I * np.ones((3, 4, 1))
    a_IPK = b_IPK + np.array([1 / 8, 1 / 8, 1 / 4])[:, None, None]
    (between, freedom), (problems, _) = parts(error_over([(a_IPK, b_IPK)], paired=True))
    assert (between, freedom) == (pytest.approx(1 / 576, rel=1e-12), 2)
    assert problems == pytest.approx(0, abs=1e-30)
    # apart: B's variance 1/16 over 3 runs is twelve times that
    apart = parts(error_over([(a_IPK, b_IPK)]))
    assert apart[1] == (pytest.approx(1 / 48, rel=1e-12), 2)


def test_noise_that_is_in_runs_and_gaps_is_taken_off_once():
    # A's runs (1, 0) and (0, 1) have equal means; the gaps to B are 0, 0. The residual, 1/2 over 2
    # runs and 2 problems 1/8, is larger than what the gaps show, which then add nothing.
    a_IPK = np.array([[[1.0], [0.0]], [[0.0], [1.0]]])
    assert error_over([(a_IPK, np.full((2, 2, 1), 0.5))]).error[0] == 0
    generator = np.random.default_rng(2)
    p_P = np.full(60, 0.3)
    squares, means = [], []
    for _ in range(400):
        sides = generator.binomial(8, p_P, (2, 3, 60))[..., None] / 8
        squares.append(error_over([tuple(sides)]).error[0] ** 2)
        means.append((sides[0] - sides[1]).mean())
    # noise alone: .21 / (8 x 60) x 2/3 = .00029; counted twice it would be .00058
    assert np.var(means) == pytest.approx(0.21 / 480 * 2 / 3, rel=0.15)
    assert np.mean(squares) < 1.3 * np.var(means)


def arm(*means, problems=10):
    """Runs that differ by the same on all problems."""
    return np.array(means, float)[:, None, None] * np.ones((len(means), problems, 1))


def test_a_suite_pools_the_gaps_of_all_pairs_of_its_arms():
    # Gaps between pairs of three arms over two seeds: A - B is 0 and 2, A - C 0 and 4, B - C 0 and
    # 2. Their variances 2, 8 and 2 have the mean 4, over 2 seeds 2. Degrees of freedom (3-1)(2-1).
    arms = [[arm(1, 3)], [arm(1, 1)], [arm(1, -1)]]
    (between, freedom), _ = parts(error_over([(arms[0][0], arms[1][0])], paired=True, arms=arms))
    assert (between, freedom) == (pytest.approx(2, rel=1e-12), 2)
    # two arms alone have their own gap: 2 over 2 seeds
    (own, freedom), _ = parts(error_over([(arms[0][0], arms[1][0])], paired=True, arms=arms[:2]))
    assert (own, freedom) == (pytest.approx(1, rel=1e-12), 1)
    assert parts(error_over([(arms[0][0], arms[1][0])], paired=True))[0][0] == pytest.approx(1)


def test_arms_that_follow_their_seeds_alike_have_seen_no_more_seeds():
    base = np.full((1, 10, 1), 0.0)
    # Five arms, the same but for their level: three seeds were seen, not fifteen.
    alike = [[arm(0, 1, 2) + level] for level in range(5)]
    first, second, _ = parts(error_over([(alike[0][0], base)], arms=alike))
    assert first == (pytest.approx(1 / 3, rel=1e-12), 2)  # variance 1 over 3 seeds
    assert second == (pytest.approx(0, abs=1e-25), 8)
    # Arms whose seeds have nothing to do with one another: (0, 1, 2), (2, 0, 1), (1, 2, 0). No seed
    # is better than another, and each arm's variance is 1: 2/3 x 3/2 over 3 seeds, with 4 degrees.
    apart = [[arm(0, 1, 2)], [arm(2, 0, 1)], [arm(1, 2, 0)]]
    first, second, _ = parts(error_over([(apart[0][0], base)], arms=apart))
    assert first == (pytest.approx(0, abs=1e-25), 2)
    assert second == (pytest.approx(1 / 3, rel=1e-12), 4)


def test_benchmarks_share_their_runs_and_have_problems_of_their_own():
    # Run means 0 and 1 on the first, 1 and 0 on the second: over both 1/2 and 1/2, no seeds' part.
    # Gaps to 0: constant on the first; on the second 0 and 1 in each run's mean: variance 1/2 over
    # 2 problems and 2^2 for the mean of two benchmarks: 1/16.
    first = arm(0, 1, problems=3)
    second = np.array([[[0.5], [1.5]], [[-0.5], [0.5]]])
    found = parts(error_over([(x, np.zeros_like(x[:1])) for x in (first, second)]))
    assert np.array(found) == pytest.approx(np.array([(0, 1), (0, 2), (1 / 16, 1)]), abs=1e-15)


def test_one_problem_has_no_error():
    one = np.full((1, 1, 2), 0.5)
    assert np.isnan(error_over([(one, one)]).error).all()
