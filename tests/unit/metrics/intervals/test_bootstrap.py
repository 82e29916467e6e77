from __future__ import annotations

import numpy as np
import pytest

from sage_cli.metrics.intervals.interval import Resampling
from sage_cli.metrics.intervals.resampling import drawn_times, studentised


def test_against_a_loop_over_resamples() -> None:
    values_P = np.random.default_rng(2).exponential(1, 15) - 0.4
    found = studentised(values_P[:, None], Resampling(confidence=0.9, resamples=199, seed=7))
    mean, error = values_P.mean(), values_P.std(ddof=1) / 15**0.5
    distances = []
    for _, times in drawn_times(15, 15, Resampling(resamples=199, seed=7)):
        for row in times.astype(int):
            drawn = np.repeat(values_P, row)
            distances.append(abs(drawn.mean() - mean) / (drawn.std(ddof=1) / 15**0.5))
    reach = sorted(distances)[-20]  # a tenth of 199 draws and the observed value
    np.testing.assert_allclose(found.low_K, mean - reach * error, rtol=1e-9)
    np.testing.assert_allclose(found.high_K, mean + reach * error, rtol=1e-9)
    at_least = sum(distance >= abs(mean) / error for distance in distances)
    assert found.p_K[0] == pytest.approx((at_least + 1) / 200, abs=1e-12)


def test_many_even_values_reach_as_far_as_students_t() -> None:
    # t with 99 degrees of freedom: 1.984; a spread of resampling of about 2 %
    values_P = np.random.default_rng(0).normal(0, 1, 100)
    found = studentised(values_P[:, None], Resampling(resamples=20_000))
    half = (found.high_K[0] - found.low_K[0]) / 2
    assert half / (values_P.std(ddof=1) / 10) == pytest.approx(1.984, rel=0.03)


def test_few_differing_values_cannot_carry_an_interval() -> None:
    # 2 of 40 differ: resamples without either of them come with probability (38/40)^40 = .13
    found = studentised(np.array([[0.5]] * 2 + [[0.0]] * 38), Resampling(resamples=1000))
    assert (found.low_K[0], found.high_K[0]) == (-np.inf, np.inf)
    assert 0.1 < found.p_K[0] < 1
    alike = studentised(np.full((40, 1), 0.5), Resampling(resamples=1000))
    assert (alike.low_K[0], alike.high_K[0], alike.p_K[0]) == (-np.inf, np.inf, 1)
