from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sage_cli.errors import MetricError
from sage_cli.metrics import Counts, method_difference, paired_difference
from sage_cli.metrics.comparison import error_over
from sage_cli.metrics.intervals import Resampling


def counts(c_P: np.ndarray, n: int) -> Counts:
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), n), c_P)


def trained(
    generator: np.random.Generator, logit_P: np.ndarray, seeds: int, sd: float = 0.5, n: int = 64
) -> list[list[Counts]]:
    """Runs of one method: every training seed moves all problems together, and each a little."""
    runs = []
    for _ in range(seeds):
        moved_P = logit_P + generator.normal(0, sd) + generator.normal(0, 0.3, len(logit_P))
        runs.append([counts(generator.binomial(n, 1 / (1 + np.exp(-moved_P))), n)])
    return runs


def test_mean_and_p_value() -> None:
    generator = np.random.default_rng(1)
    p_P = generator.beta(2, 3, 30)
    runs = [[counts(generator.binomial(256, p_P), 256)] for _ in range(3)]
    better = [[counts(generator.binomial(256, p_P / 2 + 0.5), 256)] for _ in range(2)]
    found = method_difference(better, runs, (1, 4))
    expected = np.mean([r[0].c_P for r in better]) / 256 - np.mean([r[0].c_P for r in runs]) / 256
    assert found.mean_K[0] == pytest.approx(expected, abs=1e-14)
    assert found.runs == (2, 3)
    assert found.p_K[0] < 0.05
    assert found.low_K[0] > 0
    same = method_difference(runs, runs, (1, 4))
    np.testing.assert_array_equal(same.mean_K, [0, 0])
    assert (same.p_K > 0.9).all()
    assert (same.p_K <= 1).all()


def test_one_run_is_not_a_method() -> None:
    run = [counts(np.array([1, 2]), 4)]
    with pytest.raises(MetricError, match="two models, not of methods"):
        method_difference([run], [run], (1,))


def test_variance_against_a_fixed_model_by_hand() -> None:
    # A's runs on two problems: (1, 1) and (1/2, 1/4); B, one run: (0, 1/2).
    # Between: means 1 and 3/8, variance 25/128, over 2 runs 25/256. Gaps 3/4 and 1/8: variance
    # 25/128, over 2 problems 25/256. Residual: each of A's four values is 1/16 off its run's and
    # its problem's mean, squares 4/256 over 1 degree of freedom, over 2 runs x 2 problems 1/256.
    a_IPK = np.array([[[1.0], [1.0]], [[0.5], [0.25]]])
    b_IPK = np.array([[[0.0], [0.5]]])
    error_K, freedom_K = error_over([(a_IPK, b_IPK)])
    np.testing.assert_allclose(error_K, np.sqrt(49 / 256), rtol=1e-14)
    # both sources have one degree of freedom: Howe's width is Student's
    np.testing.assert_allclose(freedom_K, 1, rtol=1e-6)
    other_way_K, _ = error_over([(b_IPK, a_IPK)])
    np.testing.assert_allclose(other_way_K, error_K, rtol=1e-14)


def test_howes_width_against_a_fixed_model() -> None:
    # Runs that differ by the same on all problems have no residual: between .02, over 2 runs .01;
    # gaps of .1 and .3, half of 40 problems each: variance .01 x 40/39, over 40 problems.
    a_IPK = np.stack([np.full((40, 1), 0.5 + shift) for shift in (-0.1, 0.1)])
    b_IPK = np.repeat([0.4, 0.2], 20)[None, :, None]
    error_K, freedom_K = error_over([(a_IPK, b_IPK)])
    between, problems = 0.01, 0.01 / 39
    assert error_K[0] == pytest.approx(np.sqrt(between + problems), rel=1e-12)
    t = stats.t.ppf(0.975, [1, 39])
    expected = np.sqrt(t[0] ** 2 * between + t[1] ** 2 * problems)
    assert stats.t.ppf(0.975, freedom_K[0]) * error_K[0] == pytest.approx(expected, rel=1e-9)


def test_an_interval_against_a_fixed_model_contains_that_of_the_models_at_hand() -> None:
    generator = np.random.default_rng(3)
    for _ in range(10):
        logit_P = generator.normal(2, 1.5, 30)
        runs = trained(generator, logit_P + 0.5, 3, sd=0.05)
        (base,) = trained(generator, logit_P, 1, sd=0)
        found = method_difference(runs, [base], (1, 16), Resampling(resamples=400))
        models = paired_difference(
            [run[0] for run in runs], base, (1, 16), Resampling(resamples=400)
        )
        np.testing.assert_allclose(found.mean_K, models.mean_K, atol=1e-14)
        assert (found.low_K <= models.low_K + 1e-12).all()
        assert (found.high_K >= models.high_K - 1e-12).all()
        assert (found.p_K >= models.p_K).all()
        outside_K = (found.low_K > 0) | (found.high_K < 0)
        np.testing.assert_array_equal(outside_K, found.p_K <= 0.05)
        assert found.runs == (3, 1)
        turned = method_difference([base], runs, (1, 16), Resampling(resamples=400))
        np.testing.assert_allclose(turned.low_K, -found.high_K, atol=1e-14)


def test_more_methods_pool_their_seeds_variance() -> None:
    # Six methods of three runs: 12 degrees of freedom instead of 4. Runs differ by the same on all
    # problems, so that nothing but the runs' means varies: t + t is 2.776 + .941 = 3.717 of two
    # methods and 2.179 + .873 = 3.051 of six, in units of the same standard error.
    def method(sd: float) -> np.ndarray:
        return np.stack([np.full((10, 1), 0.5 + shift) for shift in (-sd, 0, sd)])

    alike = [method(0.1) for _ in range(6)]
    own_K, own_freedom_K = error_over([(alike[0], alike[1])])
    pooled_K, freedom_K = error_over([(alike[0], alike[1])], [[runs] for runs in alike])
    assert (own_freedom_K[0], freedom_K[0]) == pytest.approx((4, 12), rel=1e-12)
    np.testing.assert_allclose(pooled_K, own_K, rtol=1e-12)
    reaches = [stats.t.ppf([0.975, 0.8], free).sum() for free in (4, 12)]
    assert reaches == pytest.approx([3.717, 3.051], abs=5e-4)
    # the mean of the variances .01 and five times .04 is .035, times 1/3 + 1/3
    other = [method(0.1), *(method(0.2) for _ in range(5))]
    found_K, _ = error_over([(other[0], other[1])], [[runs] for runs in other])
    assert found_K[0] ** 2 == pytest.approx(0.035 * 2 / 3, rel=1e-12)


def test_variance_and_degrees_of_freedom_by_hand() -> None:
    # A's runs have means 1/4 and 3/4, B's are alike: (1/16 + 1/16) / 2 degrees of freedom is 1/16,
    # times 1/2 + 1/2. The gaps 0 and 1/2 have the variance 1/8, over two problems 1/16, and the
    # runs of a method differ by the same on all problems: no residual. In all 1/8, with
    # (1/8)^2 / ((1/16)^2 / 2 + (1/16)^2 / 1) = 8/3 degrees of freedom.
    a_IPK = np.array([[[0.0], [0.5]], [[0.5], [1.0]]])
    error_K, freedom_K = error_over([(a_IPK, np.full((2, 2, 1), 0.25))])
    np.testing.assert_allclose(error_K, np.sqrt(1 / 8), rtol=1e-14)
    np.testing.assert_allclose(freedom_K, 8 / 3, rtol=1e-14)


def test_noise_that_is_in_runs_and_gaps_is_taken_off_once() -> None:
    # A's runs (1, 0) and (0, 1) have equal means; the gaps to B are 0, 0. The residual, with sums
    # of squares 4 x 1/4 over 2 degrees of freedom, is larger than what the gaps show.
    a_IPK = np.array([[[1.0], [0.0]], [[0.0], [1.0]]])
    error_K, freedom_K = error_over([(a_IPK, np.full((2, 2, 1), 0.5))])
    assert (error_K[0], freedom_K[0]) == (0, 2)
    generator = np.random.default_rng(2)
    p_P = np.full(60, 0.3)
    squares, means = [], []
    for _ in range(400):
        sides = generator.binomial(8, p_P, (2, 3, 60))[..., None] / 8
        squares.append(error_over([tuple(sides)])[0][0] ** 2)
        means.append((sides[0] - sides[1]).mean())
    # noise alone: .21 / (8 x 60) x 2/3 = .00029; counted twice it would be .00058
    assert np.var(means) == pytest.approx(0.21 / 480 * 2 / 3, rel=0.15)
    assert np.mean(squares) < 1.3 * np.var(means)


def test_p_and_interval_agree_and_stay_possible() -> None:
    generator = np.random.default_rng(9)
    for _ in range(30):
        logit_P = generator.normal(-1, 1.5, 20)
        a_runs, b_runs = trained(generator, logit_P + 0.8, 2), trained(generator, logit_P, 2)
        found = method_difference(a_runs, b_runs, (1, 8, 64))
        outside_K = (found.low_K > 0) | (found.high_K < 0)
        np.testing.assert_array_equal(outside_K, found.p_K <= 0.05)
        assert (found.low_K >= -1).all()
        assert (found.high_K <= 1).all()


def test_runs_without_any_variance_still_have_an_interval() -> None:
    # All solve everything: 60 problems without a gap, as in a comparison of two models.
    everything = [[counts(np.full(60, 4), 4)] for _ in range(2)]
    found = method_difference(everything, everything, (1, 4))
    np.testing.assert_array_equal(found.p_K, [1, 1])
    np.testing.assert_allclose(found.high_K, 1 - 0.025 ** (1 / 60), rtol=1e-12)
