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
from sage_cli.objectives import k3, k3_corrected, log_ratio, reward_to_go
from sage_cli.theory.sequences import POLICY_SV, REFERENCE_SV, TREE, log_qs
from sage_cli.theory.statement import Statement, distance
from sage_cli.theory.tree import Tree

Estimator = Literal["k3", "k3-corrected", "reward"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
NO_GUIDE_BT = np.zeros(TREE.tokens_BT.shape)
PAIRS = (0.05, 0.15, 0.4)
"""Sizes of a symmetric noise; a normal one, clamped to [.6, 1.4], is a mixture of such pairs."""


def expected_gradient(
    estimator: Estimator,
    log_q_BT: FloatArray,
    policy_SV: FloatArray = POLICY_SV,
    reference_SV: FloatArray = REFERENCE_SV,
    tree: Tree = TREE,
) -> FloatArray:
    """The expectation, over the policy's completions, of a loss's gradient by the logits, (S, V).

    The loss is the one that training uses; autograd differentiates it.
    """
    logit_SV = torch.from_numpy(policy_SV).clone().requires_grad_()
    logps_BT = logit_SV.log_softmax(dim=1)[tree.states_BT, tree.tokens_BT]
    reference_BT = torch.from_numpy(tree.along(reference_SV))
    loss_BT = _loss(estimator, logps_BT, reference_BT, torch.from_numpy(log_q_BT))
    mass_B = torch.from_numpy(tree.masses(policy_SV))
    return _slope(mass_B * loss_BT.sum(dim=1), logit_SV)


def _loss(estimator: Estimator, logps_BT: Tensor, reference_BT: Tensor, log_q_BT: Tensor) -> Tensor:
    if estimator == "k3":
        return k3(logps_BT, reference_BT, log_q_BT)
    if estimator == "k3-corrected":
        return k3_corrected(logps_BT, reference_BT, logps_BT.detach(), log_q_BT)
    ratio_BT = log_ratio(logps_BT, reference_BT, log_q_BT)
    return -reward_to_go(ratio_BT, torch.ones_like(ratio_BT), beta=1.0) * logps_BT


def k3_pulls_forward() -> Statement:
    """Eq. 38 as a loss term."""
    visits_S1, worst = TREE.visits(POLICY_SV)[:, None], 0.0
    for _, log_q_BT in log_qs():
        weight_SV = TREE.mean(np.exp(log_q_BT), POLICY_SV) * np.exp(REFERENCE_SV)
        total_S1 = weight_SV.sum(axis=1, keepdims=True)
        exact_SV = visits_S1 * (total_S1 * np.exp(POLICY_SV) - weight_SV)
        worst = max(worst, distance(expected_gradient("k3", log_q_BT), exact_SV))
    return Statement(
        "k3 pulls forward", "38",
        "k3 as a loss term has the gradient -sum_v q pi_ref(v) grad log pi(v) at each visited "
        "state: the forward KL's from q pi_ref, not the reverse KL's of Eqs. 1 and 6",
        worst, "not as printed",
    )  # fmt: skip


def branch_scales_k3() -> Statement:
    """What a guide of the state alone does under k3."""
    log_q_BT = dict(log_qs())["branch"]
    q_S1 = TREE.mean(np.exp(log_q_BT), POLICY_SV)[:, :1]
    plain_SV = expected_gradient("k3", NO_GUIDE_BT)
    return Statement(
        "branch under k3", "11, 38",
        "under k3 branch multiplies each state's pull to the reference by q_t: the policy is held "
        "closer to it where the entropy is high",
        distance(expected_gradient("k3", log_q_BT), q_S1 * plain_SV), "not in the paper",
    )  # fmt: skip


def corrected_is_reverse() -> Statement:
    """k3 times the importance ratio."""
    visits_S1, next_SV, worst = TREE.visits(POLICY_SV)[:, None], np.exp(POLICY_SV), 0.0
    for _, log_q_BT in log_qs():
        ratio_SV = POLICY_SV - TREE.mean(log_q_BT, POLICY_SV) - REFERENCE_SV
        mean_S1 = (next_SV * ratio_SV).sum(axis=1, keepdims=True)
        exact_SV = visits_S1 * next_SV * (ratio_SV - mean_S1)
        worst = max(worst, distance(expected_gradient("k3-corrected", log_q_BT), exact_SV))
    return Statement(
        "k3-corrected is the token's reverse KL", "5, 38",
        "k3 times the importance ratio has the reverse KL's gradient at each visited state, "
        "without credit for later tokens",
        worst, "not in the paper",
    )  # fmt: skip


def branch_drops_out() -> Statement:
    """A guide of the state alone is a baseline there."""
    branch_BT = dict(log_qs())["branch"]
    plain_SV = expected_gradient("k3-corrected", NO_GUIDE_BT)
    found_SV = expected_gradient("k3-corrected", branch_BT)
    return Statement(
        "branch under k3-corrected", "11, 38",
        "under k3-corrected, a trainer library's default, branch drops out in expectation: q is "
        "the same for all tokens of a state, hence a baseline, and only its variance is left",
        distance(found_SV, plain_SV), "not in the paper",
    )  # fmt: skip


def reward_is_exact() -> Statement:
    """Eq. 6's gradient, for guides that don't look ahead."""
    worst = 0.0
    for log_q_BT in (NO_GUIDE_BT, dict(log_qs())["branch"]):
        whole_BT = (TREE.along(POLICY_SV - REFERENCE_SV) - log_q_BT).sum(axis=1, keepdims=True)
        exact_SV = TREE.ascent(np.repeat(whole_BT, TREE.steps, axis=1), POLICY_SV)
        worst = max(worst, distance(expected_gradient("reward", log_q_BT), exact_SV))
    return Statement(
        "reward is Eq. 6", "5, 6, 8",
        "the divergence as a reward-to-go has the exact gradient of Eq. 6; branch then pays the "
        "policy for reaching states of high entropy",
        worst, "not in the paper",
    )  # fmt: skip


def looking_ahead_costs() -> Statement:
    """What reward-to-go leaves out under token."""
    log_q_BT = dict(log_qs())["token"]
    whole_BT = (TREE.along(POLICY_SV - REFERENCE_SV) - log_q_BT).sum(axis=1, keepdims=True)
    exact_SV = TREE.ascent(np.repeat(whole_BT, TREE.steps, axis=1), POLICY_SV)
    earlier_BT = log_q_BT.cumsum(axis=1) - log_q_BT
    left_out_SV = TREE.ascent(-earlier_BT, POLICY_SV)
    found_SV = expected_gradient("reward", log_q_BT)
    return Statement(
        "token under reward", "6, 10",
        "token's q of earlier tokens depends on later ones, and a token's reward-to-go leaves them "
        "out: its gradient isn't Eq. 6's, by exactly their covariance with the score",
        distance(found_SV + left_out_SV, exact_SV), "not as printed",
        {"share of the gradient": float(np.linalg.norm(left_out_SV) / np.linalg.norm(exact_SV))},
    )  # fmt: skip


def random_drops_out() -> Statement:
    """Eq. 9's noise is drawn independently of the tokens."""
    sign_BT, worst = np.random.default_rng(6).choice([-1, 1], TREE.tokens_BT.shape), 0.0
    for estimator in ESTIMATORS:
        plain_SV = expected_gradient(estimator, NO_GUIDE_BT)
        for size in PAIRS:
            pair = [np.log1p(shift * sign_BT) for shift in (size, -size)]
            up_SV, down_SV = (expected_gradient(estimator, log_q_BT) for log_q_BT in pair)
            worst = max(worst, distance((up_SV + down_SV) / 2, plain_SV))
    return Statement(
        "random is noise alone", "9, 38",
        "over its noise the random guide leaves every estimator's gradient as it is without a "
        "guide: drawn anew each iteration, it perturbs the steps and moves no optimum "
        "(completions of equal length)",
        worst, "not as printed",
    )  # fmt: skip


def other_forms() -> Statement:
    """Two losses that are often taken for something else, sample by sample."""
    logps_BT = torch.from_numpy(TREE.along(POLICY_SV)).requires_grad_()
    reference_BT = torch.from_numpy(TREE.along(REFERENCE_SV))
    d_BT = reference_BT - logps_BT
    ratio_BT = d_BT.detach().exp()
    corrected = k3_corrected(logps_BT, reference_BT, logps_BT.detach())
    error = max(
        distance(_slope(d_BT.square() / 2, logps_BT), _slope(corrected, logps_BT)),
        distance(
            _slope(d_BT.exp() * d_BT - d_BT.exp() + 1, logps_BT),
            (-ratio_BT * ratio_BT.log()).numpy(),
        ),
        distance(_slope(k3(logps_BT, reference_BT), logps_BT), (1 - ratio_BT).numpy()),
    )
    return Statement(
        "other forms", "38",
        "sample by sample, with r = pi_ref / pi: k2 = d^2 / 2 has k3-corrected's gradient, a "
        "correct forward KL has k3's (1 - r), and r log r - (r - 1) differentiated directly has "
        "-r log r, which is neither",
        error, "not in the paper",
    )  # fmt: skip


def _slope(loss: Tensor, by: Tensor) -> FloatArray:
    (found,) = torch.autograd.grad(loss.sum(), by, retain_graph=True)
    slope: FloatArray = found.numpy()
    return slope
