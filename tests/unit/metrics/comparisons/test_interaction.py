"""Interactions by hand: two methods, two initial policies, four problems."""

from __future__ import annotations

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics.comparisons.over_initial_policies import interactions

GRPO = np.array([[0.2, 0.0, 0.2, 0.0], [0.4, 0.2, 0.4, 0.2]])
DAPO = np.array([[0.3, 0.1, 0.5, 0.3], [0.5, 0.3, 0.3, 0.1]])
PSR = np.array([[0.0, 0.0, 0.0, 0.0], [0.1, 0.1, 0.1, 0.1]])
GAINS = {"grpo": GRPO, "dapo": DAPO, "psr": PSR}
MANY = dict(zip("abc", np.random.default_rng(1).normal(0.1, 0.2, (3, 2, 30)), strict=True))
"""Three methods on 30 problems, in which no two resamples tie."""


def test_gains_then_what_is_beyond_the_first() -> None:
    """Means .2, .3, .05 and theirs; less .2 that is .1, -.15, and their mean."""
    found = interactions(GAINS, shared=False)
    assert found.names == (
        "grpo", "dapo", "psr", "mean of all",
        "dapo less grpo", "psr less grpo", "mean of the others less grpo",
    )  # fmt: skip
    expected = [0.2, 0.3, 0.05, 0.55 / 3, 0.1, -0.15, -0.025]
    np.testing.assert_allclose(found.mean_K, expected)
    assert found.names[found.first_interaction] == "dapo less grpo"
    assert (found.policies, found.problems) == (2, 4)


def test_students_t_over_initial_policies() -> None:
    """GRPO's gains are .1 and .3: deviation .1414, error .1; t(1) at 2.5 % is 12.706."""
    found = interactions(GAINS, shared=False)
    np.testing.assert_allclose(
        [found.others.low_K[0], found.others.high_K[0]], [0.2 - 1.2706, 0.2 + 1.2706], atol=1e-4
    )
    # t = 2 with one degree of freedom: p = 1 - 2 arctan(2) / pi
    np.testing.assert_allclose(found.others.p_K[0], 1 - 2 * np.arctan(2) / np.pi)


def test_policies_that_differ_do_not_widen_what_is_about_these() -> None:
    """A constant added to one policy's gains moves the mean and nothing else."""
    moved = {name: gain + np.array([[0.5], [0.0]]) for name, gain in MANY.items()}
    found, after = interactions(MANY, shared=False), interactions(moved, shared=False)
    widths = [one.these.high_K - one.these.low_K for one in (found, after)]
    np.testing.assert_allclose(widths[0], widths[1])
    assert after.others.high_K[0] - after.others.low_K[0] > 3.0


def test_pairing_cancels_what_methods_share() -> None:
    """What a problem adds to both gains leaves the interaction and its interval alone."""
    hard_ZP = np.random.default_rng(0).normal(size=(2, 30))
    common = {name: gain + hard_ZP for name, gain in MANY.items()}
    found, after = interactions(MANY, shared=False), interactions(common, shared=False)
    start = found.first_interaction
    np.testing.assert_allclose(after.mean_K[start:], found.mean_K[start:])
    np.testing.assert_allclose(after.these.low_K[start:], found.these.low_K[start:], atol=1e-9)
    np.testing.assert_allclose(after.others.high_K[start:], found.others.high_K[start:], atol=1e-9)


def test_shared_problems_are_resampled_together() -> None:
    """Opposite gains on the same problems cancel in each, and no problem tells them apart."""
    gain_ZP = np.array([[0.3, -0.1, 0.2, 0.0], [-0.3, 0.1, -0.2, 0.0]]) + 0.1
    gains = {"grpo": np.array([[0.0, 0.1, 0.0, 0.1]] * 2), "dapo": gain_ZP}
    together, apart = (interactions(gains, shared=shared) for shared in (True, False))
    # every problem's mean is .1: the sample carries no variance, so no interval either
    assert np.isinf(together.these.high_K[1])
    assert np.isfinite(apart.these.high_K[1])


@pytest.mark.parametrize("shared", [False, True])
def test_one_initial_policy_says_nothing_of_others(shared: bool) -> None:
    """Only problems vary; the interval for other policies is unknown."""
    found = interactions({name: gain[:1] for name, gain in MANY.items()}, shared=shared)
    assert np.isnan(found.others.low_K).all()
    assert np.isfinite(found.these.low_K).all()


@pytest.mark.parametrize("gains", [{"grpo": GRPO}, {"grpo": GRPO[:, :1], "dapo": DAPO[:, :1]}])
def test_too_few_methods_or_problems(gains: dict[str, np.ndarray]) -> None:
    """Neither has anything to compare, or anything to resample."""
    with pytest.raises(MetricError, match="says nothing"):
        interactions(gains, shared=False)
