"""Closed forms by hand, derivatives by autograd, ascent on a known hill."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sage_cli.theory.ascent import ForwardKl, ReverseKl, ascend, best_policy, softmax
from sage_cli.theory.solutions import (
    covering,
    covering_level,
    tempered,
    tilted,
    two_valued_level,
)

RIGHT_B, HALVES_B = np.array([1.0, 0.0]), np.array([0.5, 0.5])


def test_a_tilt_by_hand():
    # exp(1 / beta) = 3: odds 3 : 1; with q = (1, 3) they are even again
    beta = 1 / math.log(3)
    assert tilted(RIGHT_B, HALVES_B, beta) == pytest.approx([0.75, 0.25], abs=1e-15)
    assert tilted(RIGHT_B, HALVES_B * [1, 3], beta) == pytest.approx([0.5, 0.5], abs=1e-15)


def test_a_tiny_beta_does_not_overflow():
    assert tilted(RIGHT_B, HALVES_B, 1e-4) == pytest.approx([1, 0], abs=1e-15)


def test_an_entropy_bonus_by_hand():
    # bonus = beta: the square root of odds 9 : 1
    beta = 1 / math.log(9)
    assert tempered(RIGHT_B, HALVES_B, beta, beta) == pytest.approx([0.75, 0.25], abs=1e-15)


def test_a_forward_kl_by_hand():
    # p = 1/2, beta = 1: lambda^2 - 2 lambda + 1/2 = 0, lambda = 1 + sqrt(1/2) = 1.7071;
    # masses .5 / .7071 = .7071 and .5 / 1.7071 = .2929
    root = math.sqrt(0.5)
    assert two_valued_level(0.5, 1.0) == pytest.approx(1 + root, abs=1e-15)
    assert covering_level(RIGHT_B, HALVES_B, 1.0) == pytest.approx(1 + root, abs=1e-14)
    assert covering(RIGHT_B, HALVES_B, 1.0) == pytest.approx([root, 1 - root], abs=1e-14)


def test_a_forward_kl_for_rewards_of_any_size():
    # equal rewards move nothing, wherever they lie: lambda = reward + beta
    assert covering(np.full(2, -3.0), HALVES_B, 0.7) == pytest.approx([0.5, 0.5], abs=1e-14)
    assert covering_level(np.full(2, -3.0), HALVES_B, 0.7) == pytest.approx(-2.3, abs=1e-14)


OBJECTIVES = [
    ReverseKl(RIGHT_B, np.array([0.2, 0.9]), 0.3),
    ReverseKl(RIGHT_B, np.array([0.2, 0.8]), 0.3, entropy_bonus=0.4),
    ForwardKl(RIGHT_B, np.array([0.2, 0.8]), 0.3),
]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_slopes_are_the_derivatives_of_the_values(objective):
    policy_B, step = np.array([0.35, 0.65]), 1e-6
    for place in range(2):
        move_B = step * np.eye(2)[place]
        found = objective.value(policy_B + move_B) - objective.value(policy_B - move_B)
        assert found / (2 * step) == pytest.approx(objective.slope(policy_B)[place], abs=1e-7)


def test_values_by_autograd_have_their_top_where_ascent_ends():
    anchor = torch.tensor([0.2, 0.9, 0.1], dtype=torch.float64)
    reward = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    found_B = best_policy(ReverseKl(reward.numpy(), anchor.numpy(), 0.3))
    logits = torch.from_numpy(np.log(found_B)).requires_grad_()
    policy = logits.softmax(dim=0)
    value = (policy * (reward - 0.3 * (policy.log() - anchor.log()))).sum()
    (slope,) = torch.autograd.grad(value, logits)
    assert slope.abs().max() < 1e-13


def test_no_other_policy_is_better():
    objective = OBJECTIVES[0]
    best_B = best_policy(objective)
    for logit in np.linspace(-3, 3, 25):
        assert objective.value(softmax(np.array([logit, 0.0]))) <= objective.value(best_B) + 1e-15


def test_ascent_finds_the_top_of_a_stretched_hill():
    # -(x - 1)^2 / 2 - 1000 (y + 2)^2 / 2
    top = ascend(lambda at: np.array([1 - at[0], -1000 * (at[1] + 2)]), np.zeros(2))
    assert top == pytest.approx([1, -2], abs=1e-12)


def test_ascent_gives_up():
    far = ascend(lambda at: np.ones(1), np.zeros(1), steps=3)
    assert 0 < far[0] <= 3
