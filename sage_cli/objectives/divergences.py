"""Estimators of the divergence from the shaped anchor q pi_ref, on sampled tokens.

Which gradient each has in expectation differs, and with it the method: see the docstrings. All
statements hold on-policy, y_t ~ pi, without gradient through q.
"""

from __future__ import annotations

from torch import Tensor


def log_ratio(logps_BT: Tensor, reference_logps_BT: Tensor, log_q_BT: Tensor | float = 0) -> Tensor:
    """log pi - log q - log pi_ref, whose mean over samples is Eq. 5 (without a guide Eq. 1's)."""
    return logps_BT - (reference_logps_BT + log_q_BT)


def k3(logps_BT: Tensor, reference_logps_BT: Tensor, log_q_BT: Tensor | float = 0) -> Tensor:
    """exp(d) - d - 1 with d = log q + log pi_ref - log pi (Eq. 38, Schulman 2020); at least 0.

    As a loss term its expected gradient is -sum_v q pi_ref(v) grad log pi(v): the *forward* KL's,
    weighted by q. A guide that depends on the state alone scales the pull there.
    """
    d_BT = -log_ratio(logps_BT, reference_logps_BT, log_q_BT)
    return d_BT.exp() - d_BT - 1


def k3_corrected(
    logps_BT: Tensor,
    reference_logps_BT: Tensor,
    old_logps_BT: Tensor,
    log_q_BT: Tensor | float = 0,
) -> Tensor:
    """k3 times the importance ratio pi / pi_old, with gradient through both.

    On-policy its expected gradient is the exact per-token reverse KL's; a guide that depends on
    the state alone is a baseline there and drops out.
    """
    ratio_BT = (logps_BT - old_logps_BT).exp()
    return ratio_BT * k3(logps_BT, reference_logps_BT, log_q_BT)


def reward_to_go(log_ratio_BT: Tensor, mask_BT: Tensor, beta: float) -> Tensor:
    """-beta times the sum of `log_ratio_BT` over each token and all later ones of its completion.

    Added to the advantages (without gradient) this is the exact gradient of Eq. 6: the pseudo-KL
    is a quantity of the sequence, and a token is credited with what it leads to.
    """
    values_BT = log_ratio_BT.detach() * mask_BT
    return -beta * values_BT.flip(1).cumsum(1).flip(1) * mask_BT


def forward_cross_entropy(logps_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """-log pi on completions sampled from the frozen reference: mean over tokens, then over rows.

    Up to the reference's own entropy this is the forward KL(pi_ref || pi), a method of its own
    (on the policy's samples a correct token-level forward KL has k3's gradient). The mean over
    tokens puts it on the scale of the per-token terms that beta weighs otherwise.
    """
    tokens_B = mask_BT.sum(dim=1).clamp(min=1)
    return -((logps_BT * mask_BT).sum(dim=1) / tokens_B).mean()
