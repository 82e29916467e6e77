from __future__ import annotations

from math import comb

import numpy as np
import pytest

from sage_cli.metrics import pass_at_k
from sage_cli.metrics.design.population import estimator_covariance, estimator_variance


def test_the_estimators_variance_by_enumeration() -> None:
    # n = 2, k = 1, p = 1/2: c/2 is 0, 1/2, 1 with chances 1/4, 1/2, 1/4: variance 1/8;
    # k = 2: right unless c = 0: 3/4 x 1/4
    np.testing.assert_allclose(estimator_variance(np.zeros(1), 2, [1, 2]), [[1 / 8, 3 / 16]])
    n, k, p = 7, 3, 0.3
    chances = [comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    values = pass_at_k(np.full(n + 1, n), np.arange(n + 1), k)
    expected = np.dot(chances, values**2) - np.dot(chances, values) ** 2
    found = estimator_variance(np.array([np.log(p / (1 - p))]), n, [k])
    assert found[0, 0] == pytest.approx(expected, rel=1e-10)


def test_the_estimators_covariance_by_enumeration() -> None:
    # correlation 1 between equal policies: the variance
    logit_G = np.log(np.array([0.1, 0.5, 0.02]) / np.array([0.9, 0.5, 0.98]))
    np.testing.assert_allclose(
        estimator_covariance(logit_G, logit_G, 16, [1, 4, 16], 1.0),
        estimator_variance(logit_G, 16, [1, 4, 16]),
        atol=1e-12,
    )
    # n = 2, p = 1/2 and 1/4, correlation .4: c = .4 sqrt(3)/8, and for k = 1 half of it.
    # k = 2: both wrong twice: (3/8 + c)^2 - (3/8)^2
    c = 0.4 * 3**0.5 / 8
    found = estimator_covariance(np.zeros(1), np.log([1 / 3]), 2, [1, 2], 0.4)
    np.testing.assert_allclose(found, [[c / 2, (3 / 8 + c) ** 2 - 9 / 64]], rtol=1e-12)
    # .01 and .9 can't correlate by more than .01 / 10: what the one solves the other solves
    rare = estimator_covariance(np.log([1 / 99]), np.log([9.0]), 1, [1], 1.0)
    np.testing.assert_allclose(rare, [[0.01 - 0.009]], rtol=1e-9)
