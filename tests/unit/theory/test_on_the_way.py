"""Rates and the guide that is needed, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.theory.on_the_way import (
    by_autograd,
    flow,
    gains,
    growth_rate,
    guide_that_holds,
    log_ratio_rate,
    rise_without_an_anchor,
    turn,
)
from sage_cli.theory.paths import FREQUENT, RARE, REFERENCE_B, RIGHT_B, Way, push, walk


def test_rates_at_the_reference():
    # (1 - p)(.005 - .3) = .695 (-.295)
    assert log_ratio_rate(Way(), REFERENCE_B) == pytest.approx(-0.205025, abs=1e-12)
    # .695 (.005 - .090025) + .305 (.09 + .156025) = -.059092 + .075038
    assert growth_rate(Way(), REFERENCE_B) == pytest.approx(0.01594525, abs=1e-12)
    # .695^2 (.090025) + .305^2 (.246025) = .043484 + .022886
    assert rise_without_an_anchor(REFERENCE_B) == pytest.approx(0.0663708, abs=1e-6)


def test_the_guide_that_is_needed():
    # .695 (60 - 1) / (1 + .3 - .005) = 41.005 / 1.295
    assert guide_that_holds() == pytest.approx(31.664093, abs=1e-6)
    weaker, stronger = (Way(beta=1.0, q=np.exp(31.664093 + more)) for more in (-0.1, 0.1))
    assert log_ratio_rate(weaker, REFERENCE_B) < 0 < log_ratio_rate(stronger, REFERENCE_B)


def test_the_ways_gradient_is_autograds():
    policy_B = np.array([0.5, 0.1, 0.15, 0.25])
    for way in (Way(), Way(beta=0.3, q=2.0), Way(beta=0.3, mara=True)):
        assert push(way, np.log(policy_B)) == pytest.approx(by_autograd(way, policy_B), abs=1e-15)


def test_the_flow_is_the_limit_of_small_steps():
    """Steps of .0005, an error of the order of the step."""
    steps, until = 20_000, 10.0
    logit_B = np.log(REFERENCE_B)
    for _ in range(steps):
        logit_B = logit_B + until / steps * push(Way(), logit_B)
    assert flow(Way(), until) == pytest.approx(logit_B, abs=5e-4)


def test_the_turn():
    when, policy_B = turn(Way(beta=0.2))
    before, after = (walk(Way(beta=0.2), (round(when) + far,))[0] for far in (-100, 100))
    for other_B in (before, after):
        assert other_B[RARE] / other_B[FREQUENT] > policy_B[RARE] / policy_B[FREQUENT]
    assert when == pytest.approx(277, abs=1)
    gain_B = gains(Way(beta=0.2), policy_B)
    assert policy_B @ gain_B == pytest.approx(0, abs=1e-12)
    assert policy_B @ RIGHT_B > 0.97
