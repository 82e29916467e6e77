from __future__ import annotations

from math import comb

import numpy as np
import pytest

from sage_cli.metrics import Counts, pass_at_k, variance_components
from sage_cli.metrics.intervals.bands import sampling_variance


def counts(c_P: list[int] | np.ndarray, n: int) -> Counts:
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), n), np.asarray(c_P))


@pytest.mark.parametrize(("n", "k", "p"), [(6, 1, 0.3), (6, 2, 0.3), (6, 3, 0.05), (9, 4, 0.6)])
def test_sampling_variance_is_unbiased(n: int, k: int, p: float) -> None:
    """Over all c, weighted by their binomial chances, it averages to the estimator's variance."""
    weight_C = [comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    pass_C = pass_at_k(n, np.arange(n + 1), k)
    truth = np.dot(weight_C, pass_C**2) - np.dot(weight_C, pass_C) ** 2
    estimate_C = [sampling_variance(counts([c], n), (k,))[0] for c in range(n + 1)]
    assert np.dot(weight_C, estimate_C) == pytest.approx(truth, rel=1e-12)


def test_sampling_variance_by_hand_and_where_it_is_unknown() -> None:
    # n = 2, c = 1, k = 1: (1/2)^2 - C(1,2)/C(2,2) = 1/4, and two problems halve the mean's.
    np.testing.assert_allclose(sampling_variance(counts([1, 1], 2), (1,)), [1 / 8], rtol=1e-15)
    assert np.isnan(sampling_variance(counts([1, 1], 2), (1, 2))).tolist() == [False, True]


def test_seeds_by_hand() -> None:
    # Two runs with two evaluation seeds each; pass@1 means 0, 1/2 and 1/2, 1: the variance
    # within runs is 1/8; between the run means 1/4 and 3/4 it is 1/8, less 1/8 / 2 = 1/16.
    runs = [[counts([0, 0], 4), counts([2, 2], 4)], [counts([2, 2], 4), counts([4, 4], 4)]]
    found = variance_components(runs, (1,))
    assert found.evaluation_seeds_K == pytest.approx([np.sqrt(1 / 8)], abs=1e-15)
    assert found.training_seeds_K == pytest.approx([np.sqrt(1 / 16)], abs=1e-15)
    assert found.problems_K == pytest.approx([0], abs=1e-15)


def test_undefined_parts_are_nan() -> None:
    found = variance_components([[counts([1, 2], 4)]], (1, 4))
    assert np.isnan(found.evaluation_seeds_K).all()
    assert np.isnan(found.training_seeds_K).all()
    assert np.isnan(found.sampling_K).tolist() == [False, True]
    # pass@1 = 1/4, 1/2: variance 1/32 over two problems
    assert found.problems_K[0] == pytest.approx(np.sqrt(1 / 64), abs=1e-15)


def test_both_ways_to_see_sampling_agree_and_training_stands_apart() -> None:
    generator = np.random.default_rng(6)
    p_P = generator.beta(0.7, 2, 60)
    runs = []
    for shift in generator.normal(0, 0.04, 60):
        seen_P = np.clip(p_P + shift, 0, 1)
        runs.append([counts(generator.binomial(16, seen_P), 16) for _ in range(4)])
    found = variance_components(runs, (1, 4))
    np.testing.assert_allclose(found.evaluation_seeds_K, found.sampling_K, rtol=0.1)
    means_T = [np.clip(p_P + s, 0, 1).mean() for s in np.random.default_rng(9).normal(0, 0.04, 999)]
    assert found.training_seeds_K[0] == pytest.approx(np.std(means_T), rel=0.25)
    alone = variance_components([[run[0]] for run in runs], (1,))
    assert alone.training_seeds_K[0] == pytest.approx(found.training_seeds_K[0], rel=0.1)
