import numpy as np
import pytest

from sage_cli.metrics.design.precision import smallest_mean


@pytest.mark.parametrize("policies", [2, 3, 8, 24])
def test_a_mean_of_that_size_is_found_in_four_of_five_cases(policies: int) -> None:
    mean = smallest_mean(0.01, policies)
    drawn = np.random.default_rng(policies).normal(mean, 0.01, (40_000, policies))
    t = drawn.mean(axis=1) / (drawn.std(axis=1, ddof=1) / policies**0.5)
    # Student's table: 97.5 % for 1, 2, 7, 23 degrees of freedom
    reach = {2: 12.706, 3: 4.303, 8: 2.365, 24: 2.069}[policies]
    assert (np.abs(t) > reach).mean() == pytest.approx(
        0.8, abs=0.008
    )  # 4 SE: sqrt(.16/40000) = .002


def test_it_grows_with_the_deviation() -> None:
    assert smallest_mean(0.02, 8) == pytest.approx(2 * smallest_mean(0.01, 8))
