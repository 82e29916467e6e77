"""What each estimator's gradient is in expectation: the package's losses by autograd, against
derivatives that are written out.

On-policy and untruncated, with plain sums over tokens. The gradient is the divergence's, to be
descended; the reward's is the same under all three.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from sage_cli.metrics.counts import FloatArray
from sage_cli.objectives import head_kl, k3, k3_corrected, log_ratio, reward_to_go
from sage_cli.theory.sequences import POLICY_ZV, REFERENCE_ZV, TREE, log_qs
from sage_cli.theory.statement import Found, distance, statement
from sage_cli.theory.tree import Tree

Estimator = Literal["k3", "k3-corrected", "reward"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
NO_GUIDE_BT = np.zeros(TREE.tokens_BT.shape)
PAIRS = (0.05, 0.15, 0.4)
"""Sizes of a symmetric noise; a normal one, clamped to [.6, 1.4], is a mixture of such pairs."""


def expected_gradient(
    estimator: Estimator,
    log_q_BT: FloatArray,
    policy_ZV: FloatArray = POLICY_ZV,
    reference_ZV: FloatArray = REFERENCE_ZV,
    tree: Tree = TREE,
) -> FloatArray:
    """Return the expected gradient of a loss by the logits over the policy's completions, (Z, V).

    The loss is the one that training uses; autograd differentiates it.
    """
    logit_ZV = torch.from_numpy(policy_ZV).clone().requires_grad_()
    logps_BT = logit_ZV.log_softmax(dim=1)[tree.states_BT, tree.tokens_BT]
    reference_BT = torch.from_numpy(tree.along(reference_ZV))
    loss_BT = _loss(estimator, logps_BT, reference_BT, torch.from_numpy(log_q_BT))
    mass_B = torch.from_numpy(tree.masses(policy_ZV))
    return _slope(mass_B * loss_BT.sum(dim=1), logit_ZV)


def _loss(estimator: Estimator, logps_BT: Tensor, reference_BT: Tensor, log_q_BT: Tensor) -> Tensor:
    if estimator == "k3":
        return k3(logps_BT, reference_BT, log_q_BT)
    if estimator == "k3-corrected":
        return k3_corrected(logps_BT, reference_BT, logps_BT.detach(), log_q_BT)
    ratio_BT = log_ratio(logps_BT, reference_BT, log_q_BT)
    return -reward_to_go(ratio_BT, torch.ones_like(ratio_BT), beta=1.0) * logps_BT


@statement("k3 pulls forward", "38", "not as printed")
def k3_pulls_forward() -> float:
    """k3 as a loss term has the gradient -sum_v q pi_ref(v) grad log pi(v) at each visited state:
    the forward KL's from q pi_ref, not the reverse KL's of Eqs. 1 and 6.
    """
    visits_Z1, worst = TREE.visits(POLICY_ZV)[:, None], 0.0
    for _, log_q_BT in log_qs():
        weight_ZV = TREE.mean(np.exp(log_q_BT), POLICY_ZV) * np.exp(REFERENCE_ZV)
        total_Z1 = weight_ZV.sum(axis=1, keepdims=True)
        exact_ZV = visits_Z1 * (total_Z1 * np.exp(POLICY_ZV) - weight_ZV)
        worst = max(worst, distance(expected_gradient("k3", log_q_BT), exact_ZV))
    return worst


@statement("branch under k3", "11, 38", "not in the paper")
def branch_scales_k3() -> float:
    """Under k3 branch multiplies each state's pull to the reference by q_t: the policy is held
    closer to it where the entropy is high.
    """
    log_q_BT = dict(log_qs())["branch"]
    q_Z1 = TREE.mean(np.exp(log_q_BT), POLICY_ZV)[:, :1]
    plain_ZV = expected_gradient("k3", NO_GUIDE_BT)
    return distance(expected_gradient("k3", log_q_BT), q_Z1 * plain_ZV)


@statement("k3-corrected is the token's reverse KL", "5, 38", "not in the paper")
def corrected_is_reverse() -> float:
    """k3 times the importance ratio has the reverse KL's gradient at each visited state, without
    credit for later tokens.
    """
    visits_Z1, next_ZV, worst = TREE.visits(POLICY_ZV)[:, None], np.exp(POLICY_ZV), 0.0
    for _, log_q_BT in log_qs():
        ratio_ZV = POLICY_ZV - TREE.mean(log_q_BT, POLICY_ZV) - REFERENCE_ZV
        mean_Z1 = (next_ZV * ratio_ZV).sum(axis=1, keepdims=True)
        exact_ZV = visits_Z1 * next_ZV * (ratio_ZV - mean_Z1)
        worst = max(worst, distance(expected_gradient("k3-corrected", log_q_BT), exact_ZV))
    return worst


@statement("head is the token's reverse KL", "5", "not in the paper")
def head_is_reverse() -> float:
    """The divergence over any number of likeliest tokens, and past them its sampled estimate, has
    the reverse KL's gradient at each visited state.
    """
    visits_Z1, worst = TREE.visits(POLICY_ZV)[:, None], 0.0
    mass_B1 = torch.from_numpy(TREE.masses(POLICY_ZV))[:, None]
    for _, log_q_BT in log_qs():
        anchor_ZV = torch.from_numpy(REFERENCE_ZV + TREE.mean(log_q_BT, POLICY_ZV))
        logit_ZV = torch.from_numpy(POLICY_ZV).clone().requires_grad_()
        logps_ZV = logit_ZV.log_softmax(dim=1)
        kl_Z1 = (logps_ZV.exp() * (logps_ZV - anchor_ZV)).sum(dim=1, keepdim=True)
        exact_ZV = _slope(torch.from_numpy(visits_Z1) * kl_Z1, logit_ZV)
        for tokens in range(1, logps_ZV.shape[1] + 1):
            head_ZH = torch.from_numpy(REFERENCE_ZV).topk(tokens).indices
            logps_BT = logps_ZV[TREE.states_BT, TREE.tokens_BT]
            sampled_BT1 = torch.from_numpy(TREE.tokens_BT)[..., None]
            loss_BT = head_kl(
                logps_ZV.gather(1, head_ZH)[TREE.states_BT],
                anchor_ZV.gather(1, head_ZH)[TREE.states_BT],
                (head_ZH[TREE.states_BT] == sampled_BT1).any(dim=-1),
                logps_BT - anchor_ZV[TREE.states_BT, TREE.tokens_BT],
                (logps_BT - logps_BT.detach()).exp(),
            )
            worst = max(worst, distance(_slope(mass_B1 * loss_BT, logit_ZV), exact_ZV))
    return worst


@statement("branch under k3-corrected", "11, 38", "not in the paper")
def branch_drops_out() -> float:
    """Under k3-corrected, a trainer library's default, branch drops out in expectation: q is the
    same for all tokens of a state, hence a baseline, and only its variance is left.
    """
    branch_BT = dict(log_qs())["branch"]
    plain_ZV = expected_gradient("k3-corrected", NO_GUIDE_BT)
    found_ZV = expected_gradient("k3-corrected", branch_BT)
    return distance(found_ZV, plain_ZV)


@statement("reward is Eq. 6", "5, 6, 8", "not in the paper")
def reward_is_exact() -> float:
    """The divergence as a reward-to-go has the exact gradient of Eq. 6; branch then pays the policy
    for reaching states of high entropy.
    """
    worst = 0.0
    for log_q_BT in (NO_GUIDE_BT, dict(log_qs())["branch"]):
        whole_BT = (TREE.along(POLICY_ZV - REFERENCE_ZV) - log_q_BT).sum(axis=1, keepdims=True)
        exact_ZV = TREE.ascent(np.repeat(whole_BT, TREE.steps, axis=1), POLICY_ZV)
        worst = max(worst, distance(expected_gradient("reward", log_q_BT), exact_ZV))
    return worst


@statement("token under reward", "6, 10", "not as printed")
def looking_ahead_costs() -> Found:
    """Token's q of earlier tokens depends on later ones, and a token's reward-to-go leaves them
    out: its gradient is not Eq. 6's, by exactly their covariance with the score.
    """
    log_q_BT = dict(log_qs())["token"]
    whole_BT = (TREE.along(POLICY_ZV - REFERENCE_ZV) - log_q_BT).sum(axis=1, keepdims=True)
    exact_ZV = TREE.ascent(np.repeat(whole_BT, TREE.steps, axis=1), POLICY_ZV)
    earlier_BT = log_q_BT.cumsum(axis=1) - log_q_BT
    left_out_ZV = TREE.ascent(-earlier_BT, POLICY_ZV)
    found_ZV = expected_gradient("reward", log_q_BT)
    error = distance(found_ZV + left_out_ZV, exact_ZV)
    return error, {
        "share of the gradient": float(np.linalg.norm(left_out_ZV) / np.linalg.norm(exact_ZV))
    }


@statement("random is noise alone", "9, 38", "not as printed")
def random_drops_out() -> float:
    """Over its noise the random guide leaves every estimator's gradient as it is without a guide:
    sampled again in each iteration, it perturbs the steps and moves no optimum (completions of
    equal length).
    """
    sign_BT, worst = np.random.default_rng(6).choice([-1, 1], TREE.tokens_BT.shape), 0.0
    for estimator in ESTIMATORS:
        plain_ZV = expected_gradient(estimator, NO_GUIDE_BT)
        for size in PAIRS:
            pair = [np.log1p(shift * sign_BT) for shift in (size, -size)]
            up_ZV, down_ZV = (expected_gradient(estimator, log_q_BT) for log_q_BT in pair)
            worst = max(worst, distance((up_ZV + down_ZV) / 2, plain_ZV))
    return worst


@statement("other forms", "38", "not in the paper")
def other_forms() -> float:
    """Sample by sample, with r = pi_ref / pi: k2 = d^2 / 2 has k3-corrected's gradient, a correct
    forward KL has k3's (1 - r), and r log r - (r - 1) differentiated directly has -r log r, which
    is neither.

    Losses that are often taken for something else.
    """
    logps_BT = torch.from_numpy(TREE.along(POLICY_ZV)).requires_grad_()
    reference_BT = torch.from_numpy(TREE.along(REFERENCE_ZV))
    d_BT = reference_BT - logps_BT
    ratio_BT = d_BT.detach().exp()
    corrected = k3_corrected(logps_BT, reference_BT, logps_BT.detach())
    return max(
        distance(_slope(d_BT.square() / 2, logps_BT), _slope(corrected, logps_BT)),
        distance(
            _slope(d_BT.exp() * d_BT - d_BT.exp() + 1, logps_BT),
            (-ratio_BT * ratio_BT.log()).numpy(),
        ),
        distance(_slope(k3(logps_BT, reference_BT), logps_BT), (1 - ratio_BT).numpy()),
    )


def _slope(loss: Tensor, by: Tensor) -> FloatArray:
    (found,) = torch.autograd.grad(loss.sum(), by, retain_graph=True)
    slope: FloatArray = found.numpy()
    return slope
