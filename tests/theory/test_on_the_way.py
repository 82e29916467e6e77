"""On the way to the optimum: exact policy gradients on the logits of four answers.

With a_i = r_i - beta log pi_i / (q_i P_i), the logits move by pi_i (a_i - mean a) per step.
"""

from functools import partial

import numpy as np
import pytest
import torch
from optima import covering, tilted
from scipy.integrate import solve_ivp
from scipy.special import log_softmax

from sage_cli.guides.divergences import k3

close = partial(np.testing.assert_allclose, rtol=0, atol=1e-12)

REFERENCE_B = np.array([0.300, 0.005, 0.300, 0.395])
RIGHT_B = np.array([1.0, 1.0, 0.0, 0.0])
FREQUENT, RARE = 0, 1
NONE_B, MARKED_B = np.zeros(4), np.log(1.4) * (np.arange(4) == RARE)
"""Without a guide, and with a token at the clamp in the rare right answer."""


def push(logit_B, beta, log_q_B=NONE_B):
    """Return the expected gradient of E[r] - beta D(pi || q P) by the logits."""
    log_B = log_softmax(logit_B)
    worth_B = RIGHT_B - beta * (log_B - np.log(REFERENCE_B) - log_q_B)
    return np.exp(log_B) * (worth_B - np.exp(log_B) @ worth_B)


def pull(logit_B, log_q_B):
    """Return k3's, by which q_i P_i - pi_i sum(q P) is added to a logit, times beta."""
    anchor_B = np.exp(log_q_B) * REFERENCE_B
    return anchor_B - np.exp(log_softmax(logit_B)) * anchor_B.sum()


def steps(count, beta, log_q_B=NONE_B, covers=False):
    """Return the policies after each of so many steps of length 1."""
    logit_B, policies = np.log(REFERENCE_B), []
    for _ in range(count):
        held = beta * pull(logit_B, log_q_B) if covers else 0.0
        logit_B = logit_B + push(logit_B, 0.0 if covers else beta, log_q_B) + held
        policies.append(np.exp(log_softmax(logit_B)))
    return np.array(policies)


@pytest.mark.parametrize("log_q_B", [NONE_B, MARKED_B], ids=["none", "marked"])
@pytest.mark.parametrize("beta", [0.0, 0.04, 0.2])
def test_two_right_answers_on_the_way(beta, log_q_B):
    """Eq. 1: each gradient carries its own pi, so that of two equally good answers the frequent one
    is reinforced more.
    """
    logit_B = torch.from_numpy(np.log(steps(20, beta)[-1])).requires_grad_()
    log_B = logit_B.log_softmax(dim=0)
    ratio_B = log_B - torch.from_numpy(log_q_B + np.log(REFERENCE_B))
    value = log_B.exp() * (torch.from_numpy(RIGHT_B) - beta * ratio_B)
    pushed_B = push(logit_B.detach().numpy(), beta, log_q_B)
    value.sum().backward()
    close(logit_B.grad, pushed_B)
    assert pushed_B[FREQUENT] > pushed_B[RARE]


def test_a_rare_right_answer_loses_on_the_way():
    """Eqs. 1, 2: at beta = 0 exp(-z_i) - exp(-z_j) of two right answers never changes, so that the
    rare one's mass tends to 0, at (1 - p)^2 sum_right pi^2 + p^2 sum_wrong pi^2 of right mass. At
    beta = .04 it goes that way first, far from Eq. 2.
    """
    start_B = np.log(REFERENCE_B)
    flow = solve_ivp(
        lambda _, z_B: push(z_B, 0.0), (0, 1e4), start_B, "LSODA", rtol=1e-11, atol=1e-11
    )
    kept = np.exp(-flow.y[RARE]) - np.exp(-flow.y[FREQUENT])
    np.testing.assert_allclose(kept, kept[0], rtol=1e-7)
    policy_B = np.exp(log_softmax(flow.y[:, len(flow.t) // 2]))
    p = policy_B @ RIGHT_B
    slope_B = push(np.log(policy_B), 0.0)
    rise = (policy_B * RIGHT_B) @ (slope_B - policy_B @ slope_B)
    expected = (1 - p) ** 2 * (RIGHT_B @ policy_B**2) + p**2 * ((1 - RIGHT_B) @ policy_B**2)
    assert rise == pytest.approx(expected, rel=1e-9)
    path = steps(10_000, 0.04)[[19, 99, 9_999], RARE]
    assert path == pytest.approx([0.0013, 0.00042, 2.7e-5], rel=0.04)
    assert tilted(RIGHT_B, REFERENCE_B, 0.04)[RARE] == pytest.approx(0.0164, abs=5e-5)


@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_what_a_guide_does_on_the_way(beta):
    """Eqs. 1, 4: from the reference on, a guide keeps the rare answer from losing only where
    beta log q reaches (1 - p) (P_j / P_i - 1) / (1 + P_j - P_i) = 31.7.
    """
    frequent, rare = REFERENCE_B[:2]
    needed = (REFERENCE_B @ (1 - RIGHT_B)) * (frequent / rare - 1) / (1 + frequent - rare)
    assert needed == pytest.approx(31.7, abs=0.05)
    slope_B = push(np.log(REFERENCE_B), beta, needed / beta * (np.arange(4) == RARE))
    assert slope_B[RARE] == pytest.approx(slope_B[FREQUENT], abs=1e-12)


@pytest.mark.parametrize(
    ("log_q_B", "latest"), [(NONE_B, 0.0073), (MARKED_B, 0.0141)], ids=["none", "marked"]
)
def test_k3_holds_a_rare_answer_on_the_way(log_q_B, latest):
    """Eqs. 27, 38: the pull of k3 does not vanish with an answer's mass, so that a rare right
    answer turns early and comes to Eq. 27's mass.
    """
    beta, policy_B = 0.04, steps(100, 0.04, log_q_B, covers=True)[-1]
    logit_B = torch.from_numpy(np.log(policy_B)).requires_grad_()
    log_B = logit_B.log_softmax(dim=0)
    term_B = k3(log_B, torch.from_numpy(np.log(REFERENCE_B)), torch.from_numpy(log_q_B))
    value = log_B.exp() * torch.from_numpy(RIGHT_B) - beta * torch.from_numpy(policy_B) * term_B
    z_B = np.log(policy_B)
    total_B = push(z_B, 0.0) + beta * pull(z_B, log_q_B)
    value.sum().backward()
    close(logit_B.grad, total_B)
    end_B = covering(RIGHT_B, np.exp(log_q_B) * REFERENCE_B, beta)
    z_B = np.log(end_B)
    close(push(z_B, 0.0) + beta * pull(z_B, log_q_B), 0)
    masses = steps(10_000, beta, log_q_B, covers=True)[:, RARE]
    assert masses[-1] == pytest.approx(latest, rel=0.01)
    assert masses.min() > 0.0009
