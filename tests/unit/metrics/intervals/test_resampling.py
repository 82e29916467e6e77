from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from sage_cli.metrics.intervals.interval import Interval, Resampling
from sage_cli.metrics.intervals.resampling import drawn_times, gaffke, studentised


def bounds_of(values: list[float] | np.ndarray, bounds: tuple[float, float] = (0, 1)) -> Interval:
    values_PK = np.asarray(values, float)[:, None]
    return gaffke(values_PK, bounds, Resampling(resamples=40_000))


def test_two_values_by_hand() -> None:
    # Values 0 and 1 with weights (v, w) and u for the unseen. Lower: w alone, P(w > t) = (1-t)^2,
    # so (1 - t)^2 = .975. Upper: w + u = 1 - v, P(1 - v > t) = 1 - t^2, so t^2 = .975.
    found = bounds_of([0, 1])
    assert found.low_K[0] == pytest.approx(1 - 0.975**0.5, rel=0.03)
    assert found.high_K[0] == pytest.approx(0.975**0.5, rel=0.002)


@pytest.mark.parametrize(("ones", "problems"), [(3, 20), (0, 40), (59, 60), (1, 100)])
def test_right_or_wrong_gives_clopper_and_pearsons_interval(ones: int, problems: int) -> None:
    # The weights of `ones` values add up to Beta(ones, P - ones + 1): Clopper and Pearson 1934.
    found = bounds_of([1.0] * ones + [0.0] * (problems - ones))
    low = stats.beta.ppf(0.025, ones, problems - ones + 1) if ones else 0.0
    high = stats.beta.ppf(0.975, ones + 1, problems - ones)
    assert found.low_K[0] == pytest.approx(low, rel=0.1, abs=1e-12)
    assert found.high_K[0] == pytest.approx(high, rel=0.01)


def test_other_bounds_are_a_change_of_scale() -> None:
    values = np.random.default_rng(1).random(12)
    unit, wide = bounds_of(values), bounds_of(2 * values - 1, (-1, 1))
    np.testing.assert_allclose(wide.low_K, 2 * unit.low_K - 1, rtol=1e-9)
    np.testing.assert_allclose(wide.high_K, 2 * unit.high_K - 1, rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0])
def test_values_alike_in_closed_form_are_the_limit_of_values_almost_alike(value: float) -> None:
    almost = np.full(30, value)
    almost[0] += 1e-9 if value < 1 else -1e-9
    exact, drawn = bounds_of([value] * 30), bounds_of(almost)
    np.testing.assert_allclose(exact.low_K, drawn.low_K, rtol=0.01, atol=1e-9)
    np.testing.assert_allclose(exact.high_K, drawn.high_K, rtol=0.01, atol=1e-9)


def test_p_of_values_alike_by_hand() -> None:
    # 10 gaps of 1/2: the mean of 1/2 and an unseen -1 is 0 at weights 2/3 and 1/3; the 10 weigh
    # less than 2/3 with probability (2/3)^10, on either side alike. Gaps of 0 say nothing.
    assert bounds_of([0.5] * 10, (-1, 1)).p_K[0] == pytest.approx(2 * (2 / 3) ** 10, rel=1e-12)
    assert bounds_of([-0.5] * 10, (-1, 1)).p_K[0] == pytest.approx(2 * (2 / 3) ** 10, rel=1e-12)
    assert bounds_of([0.0] * 10, (-1, 1)).p_K[0] == 1


def test_blocks_of_weights_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values_PK = np.random.default_rng(0).random((50, 2))
    whole = gaffke(values_PK, (0, 1), Resampling(confidence=0.9, resamples=500, seed=1))
    monkeypatch.setattr(
        "sage_cli.metrics.intervals.resampling.BLOCK", 700
    )  # 13 rows, then a column
    parts = gaffke(values_PK, (0, 1), Resampling(confidence=0.9, resamples=500, seed=1))
    np.testing.assert_allclose(parts.low_K, whole.low_K, rtol=1e-12)
    np.testing.assert_allclose(parts.high_K, whole.high_K, rtol=1e-12)


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
