"""pass@k at equal pass@1, over temperatures."""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics.comparisons.equal_accuracy import equal_accuracy

TEMPERATURES = np.array([1.0, 1.2, 1.4])
HOW = {"confidence": 0.95, "resamples": 400, "seed": 1}


def curve(*values: float) -> np.ndarray:
    """The same values on each of five problems."""
    return np.tile(values, (5, 1))


def test_the_sharper_policy_is_taken_at_a_higher_temperature() -> None:
    sharp = curve(0.5, 0.4, 0.2), curve(0.7, 0.8, 0.9)
    broad = curve(0.35, 0.3, 0.1), curve(0.8, 0.85, 0.9)
    found = equal_accuracy(sharp, broad, TEMPERATURES, **HOW)
    # the sharp one has .35 a quarter of the way from .4 to .2: T 1.25, .8 + .25 (.9 - .8) = .825
    assert found.accuracy == pytest.approx(0.35)
    assert found.temperatures == pytest.approx((1.25, 1.0))
    assert found.difference == pytest.approx(0.8 - 0.825)
    # all problems are alike: every resample is the same
    assert (found.low, found.high) == pytest.approx((found.difference, found.difference))
    turned = equal_accuracy(broad, sharp, TEMPERATURES, **HOW)
    assert turned.difference == pytest.approx(-found.difference)


def test_equal_policies_are_compared_where_they_are() -> None:
    one = curve(0.5, 0.4, 0.2), curve(0.7, 0.8, 0.9)
    found = equal_accuracy(one, one, TEMPERATURES, **HOW)
    assert found.temperatures == (1.0, 1.0)
    assert found.difference == 0


def test_a_pass_at_1_that_is_never_reached_is_refused() -> None:
    sharp = curve(0.9, 0.8, 0.7), curve(0.95, 0.95, 0.95)
    broad = curve(0.35, 0.3, 0.1), curve(0.8, 0.85, 0.9)
    with pytest.raises(MetricError, match="do not reach the same pass@1"):
        equal_accuracy(sharp, broad, TEMPERATURES, **HOW)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Two policies whose problems' chances fall with temperature; true values by many problems."""

    def drawn(generator: np.random.Generator, problems: int) -> list[tuple]:
        hard = generator.normal(-1, 1.5, problems)
        policies = []
        for gain, spread in ((0.6, 0.3), (0.0, 0.5)):
            logit = hard + gain + generator.normal(0, spread, problems)
            p_PT = 1 / (1 + np.exp(-(logit[:, None] - 3 * (TEMPERATURES - 1))))
            policies.append((p_PT, 1 - (1 - p_PT) ** 64))
        return policies

    generator = np.random.default_rng(5)
    truth = equal_accuracy(*drawn(generator, 200_000), TEMPERATURES, **(HOW | {"resamples": 10}))
    held = 0
    for _ in range(200):
        found = equal_accuracy(*drawn(generator, 150), TEMPERATURES, **HOW)
        held += found.low <= truth.difference <= found.high
    assert held >= 180  # 190 are expected; with a true .95 fewer than 180 come once in 500
