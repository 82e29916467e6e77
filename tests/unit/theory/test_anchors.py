"""Optima of other anchors by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.theory.anchors import at_rest, mode_anchored, tempered_reference
from sage_cli.theory.ascent import ReverseKl, best_policy
from sage_cli.theory.solutions import tilted

REFERENCE_B = np.array([0.6, 0.3, 0.1])
RIGHT_B = np.array([1.0, 1.0, 0.0])


def test_mara():
    # beta .25: 1 + .25 log(.6 / .3) = 1.173287
    reward_B = mode_anchored(RIGHT_B, REFERENCE_B, 0.25)
    assert reward_B == pytest.approx([1, 1.173287, 0], abs=1e-6)
    # weights .6 e^4 = 32.758890 twice, .1: 32.758890 / 65.617780 = .499238
    expected = [0.499238, 0.499238, 0.001524]
    assert tilted(reward_B, REFERENCE_B, 0.25) == pytest.approx(expected, abs=1e-6)
    assert best_policy(ReverseKl(reward_B, REFERENCE_B, 0.25)) == pytest.approx(expected, abs=1e-6)
    # without: .6, .3 times e^4 and .1: 32.758890, 16.379445, .1 of 49.238335
    assert tilted(RIGHT_B, REFERENCE_B, 0.25) == pytest.approx(
        [0.665313, 0.332656, 0.002031], abs=1e-6
    )


def test_the_reference_of_rapo():
    # roots .774597, .547723, .316228; sum 1.638547
    half_B = tempered_reference(REFERENCE_B, 0.5)
    assert half_B == pytest.approx([0.472734, 0.334273, 0.192993], abs=1e-6)
    assert tempered_reference(REFERENCE_B, 0.0) == pytest.approx([1 / 3] * 3, abs=1e-15)
    # for every grade, beta .25: e^4 = 54.598150 times .472734, .334273 is 25.810402, 18.250687,
    # and .192993: of 44.254082
    expected = [0.583232, 0.412407, 0.004361]
    assert tilted(RIGHT_B, half_B, 0.25) == pytest.approx(expected, abs=1e-6)
    assert best_policy(ReverseKl(RIGHT_B, half_B, 0.25)) == pytest.approx(expected, abs=1e-6)


def test_references_after_moves():
    q_B = np.array([1.0, 2.0, 1.0])
    # one reset, beta 1: weights .6 e^2 = 4.433434, .3 4 e^2 = 8.866867, .1 of 13.400301
    expected = [0.330846, 0.661692, 0.007463]
    assert at_rest(REFERENCE_B, q_B, RIGHT_B, 1.0, 1.0) == pytest.approx(expected, abs=1e-6)
    first_B = best_policy(ReverseKl(RIGHT_B, q_B * REFERENCE_B, 1.0))
    second_B = best_policy(ReverseKl(RIGHT_B, q_B * first_B, 1.0))
    assert second_B == pytest.approx(expected, abs=1e-6)
    # none: Eq. 4
    assert at_rest(REFERENCE_B, q_B, RIGHT_B, 1.0, 0.0) == pytest.approx(first_B, abs=1e-12)
