"""The enumeration, by hand and against autograd; and the toy's numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sage_cli.guides import RandomGuide, Signals, TokenGuide
from sage_cli.theory import toy
from sage_cli.theory.guided import clipped_moments, clipped_normal_mean
from sage_cli.theory.off_target import preference_needed
from sage_cli.theory.support import detection, support
from sage_cli.theory.tree import Tree, entropies, random_policy

PAIR = Tree(vocabulary=2, steps=2)
# from the prompt 1/4 and 3/4; after token 0 even; after token 1 always (nearly) token 0
LOGP_ZV = np.log([[0.25, 0.75], [0.5, 0.5], [1 - 1e-12, 1e-12]])


def test_masses_and_visits_by_hand():
    assert PAIR.tokens_BT.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert PAIR.states_BT.tolist() == [[0, 1], [0, 1], [0, 2], [0, 2]]
    assert PAIR.masses(LOGP_ZV) == pytest.approx([0.125, 0.125, 0.75, 0], abs=1e-11)
    assert PAIR.visits(LOGP_ZV) == pytest.approx([1, 0.25, 0.75], abs=1e-15)
    assert entropies(LOGP_ZV)[:2] == pytest.approx(
        [-0.25 * math.log(0.25) - 0.75 * math.log(0.75), math.log(2)], abs=1e-15
    )


def test_means_over_what_follows_by_hand():
    value_BT = np.array([[1.0, 5], [3, 6], [10, 7], [20, 8]])
    found_ZV = PAIR.mean(value_BT, LOGP_ZV)
    # token 0 at the prompt: (1 + 3) / 2; token 1: nearly always the third completion
    assert found_ZV[0] == pytest.approx([2, 10], abs=1e-10)
    assert found_ZV[1].tolist() == [5, 6]


def test_a_table_and_its_masses_are_one_policy():
    tree = Tree(vocabulary=3, steps=3)
    policy_ZV = random_policy(tree, seed=1)
    assert tree.masses(policy_ZV).sum() == pytest.approx(1, abs=1e-14)
    assert tree.table(tree.masses(policy_ZV)) == pytest.approx(policy_ZV, abs=1e-12)


def test_ascent_is_autograds():
    tree = Tree(vocabulary=3, steps=2)
    policy_ZV = random_policy(tree, seed=2)
    coefficient_BT = np.random.default_rng(3).standard_normal(tree.tokens_BT.shape)
    logits = torch.from_numpy(policy_ZV).clone().requires_grad_()
    logps_BT = logits.log_softmax(dim=1)[tree.states_BT, tree.tokens_BT]
    weight_BT = torch.from_numpy(tree.masses(policy_ZV)[:, None] * coefficient_BT)
    (expected,) = torch.autograd.grad((weight_BT * logps_BT).sum(), logits)
    assert tree.ascent(coefficient_BT, policy_ZV) == pytest.approx(expected.numpy(), abs=1e-15)


def test_the_toy_by_hand():
    plain_B, guided_B, q_B = toy.optima()
    # reference .03 / 6 = .005; p = .95 * .9 + .005 = .86
    assert toy.REFERENCE_B[toy.RARE] == pytest.approx(0.005, abs=1e-16)
    # q = 1 + .3 (log 6 - 1.2) = 1.177528; the frequent answer passes no branch
    q = 1 + 0.3 * (math.log(6) - 1.2)
    assert (q_B[toy.RARE], q_B[toy.FREQUENT]) == pytest.approx((q, 1), abs=1e-14)
    # Eq. 2: .005 e^5 / (.86 e^5 + .14) = .0058076
    total = 0.86 * math.exp(5) + 0.14
    assert plain_B[toy.RARE] == pytest.approx(0.005 * math.exp(5) / total, abs=1e-16)
    # Eq. 4: the rare answer and the five wrong ones beside it (.005 each) are weighted by q
    guided = total + (q - 1) * (0.005 * math.exp(5) + 0.025)
    assert guided_B[toy.RARE] == pytest.approx(q * 0.005 * math.exp(5) / guided, abs=1e-16)


def test_the_toys_branch_at_rest_under_k3_by_hand():
    # p = 1/6, beta = .2: lambda = .6 + sqrt(.36 - .2 * 5/6) = 1.039697; .2 / 6 / .039697 = .8397
    level = 0.6 + math.sqrt(0.36 - 1 / 6)
    found_ZV = toy.at_rest("k3", toy.NO_GUIDE_BT)
    assert math.exp(found_ZV[2, 0]) == pytest.approx(0.2 / 6 / (level - 1), abs=1e-12)
    assert math.exp(found_ZV[2, 0]) == pytest.approx(0.8397, abs=1e-4)
    guided_ZV = toy.at_rest("k3", toy.LOG_Q_BT)
    assert guided_ZV[2, 0] < found_ZV[2, 0]


@pytest.mark.parametrize("estimator", ["k3", "k3-corrected", "reward"])
def test_at_rest_no_force_is_left(estimator):
    for log_q_BT in (toy.NO_GUIDE_BT, toy.LOG_Q_BT):
        left_ZV = toy.force(estimator, log_q_BT, toy.at_rest(estimator, log_q_BT))
        assert np.abs(left_ZV).max() < 1e-14
    assert np.abs(toy.force(estimator, toy.NO_GUIDE_BT, toy.REFERENCE_ZV)).max() > 1e-3


@pytest.mark.parametrize("beta", [0.04, 0.1, 0.4, 1.0])
def test_branch_lowers_the_toys_rare_answer_under_k3_at_every_beta(beta):
    plain, guided = (
        toy.mass(toy.at_rest("k3", log_q_BT, beta)) for log_q_BT in (toy.NO_GUIDE_BT, toy.LOG_Q_BT)
    )
    assert guided < 0.95 * plain


def test_support_is_of_right_completions_above_delta():
    policy_B, right_B = np.array([0.5, 0.2, 0.3]), np.array([1.0, 1.0, 0.0])
    assert support(policy_B, right_B, 0.1) == {0, 1}
    assert support(policy_B, right_B, 0.2) == {0}  # "more than"


def test_detection_by_hand():
    assert detection(0.5, 2) == pytest.approx(0.75, abs=1e-15)
    assert detection(1e-12, 10) == pytest.approx(1e-11, rel=1e-9)  # no cancellation


def test_clipped_means_by_hand():
    assert clipped_normal_mean(1.0, 0.15) == pytest.approx(1.0, abs=1e-15)  # by symmetry
    # a wide one lies half at each end, less what is between: at deviation 1e6 the mean is 1
    assert clipped_normal_mean(1.0, 1e6) == pytest.approx(1.0, abs=1e-9)
    # at mean 1.4 half lies at the end; the other half loses deviation / sqrt(2 pi)
    expected = 1.4 - 0.01 / math.sqrt(2 * math.pi)
    assert clipped_normal_mean(1.4, 0.01) == pytest.approx(expected, abs=1e-15)


def test_the_guides_noise_has_the_means_that_are_stated():
    """The package's own draws, 400,000 tokens: means within four standard errors."""
    logps_BT = torch.full((2000, 200), -1.0, dtype=torch.float64)
    logps_BT[:, ::2] = -3.0  # the upper half of the ranks
    signals = Signals(logps_BT, -logps_BT, torch.ones_like(logps_BT))
    drawn = RandomGuide(epsilon=(1.0, 1.0)).log_q(signals, 0)
    mean_q, mean_log_q = clipped_moments(1.0, 0.15)
    for found, expected in ((drawn.exp(), mean_q), (drawn, mean_log_q)):
        assert abs(found.mean() - expected) < 4 * found.std() / 400_000**0.5
    top = TokenGuide().log_q(signals, 0).exp()[:, ::2]  # minmax: w = 1
    assert abs(top.mean() - clipped_moments(1.3, 0.25)[0]) < 4 * top.std() / 200_000**0.5


def test_eq_32s_bound_as_it_was_computed_elsewhere():
    assert preference_needed(0.01, 0.05) == pytest.approx(3.92e-6, rel=1e-3)
    # lambda = .75 + sqrt(.5625 - .45) = 1.085410; e^-2 lambda / .085410 = 1.71987
    assert preference_needed(0.1, 0.5) == pytest.approx(1.71987, abs=1e-5)
