"""RAPO's tilted reference on three tokens, by enumeration."""

import math

import pytest
import torch

from sage_cli.guides import RapoGuide, Signals
from sage_cli.guides.divergences import k3
from sage_cli.guides.token_signals import tilted_temperature

P_V = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
PI_V = torch.tensor([0.5, 0.4, 0.1], dtype=torch.float64)


def tilted(phi):
    """Return log P^phi / sum P^phi as the trainer computes it: at another temperature."""
    return (P_V.log() / tilted_temperature(1.0, phi)).log_softmax(dim=0)


def log_q(guide, right):
    """Return log q of each of the three tokens, a row each."""
    phi = guide.exponents[right]
    logps_BT = P_V.log()[:, None]
    known = {
        "reference_logps_BT": logps_BT,
        "reference_tilted_logps_BT": (logps_BT[:, 0] if phi == 1 else tilted(phi))[:, None],
        "right_B": torch.full((3,), right),
    }
    signals = Signals(logps_BT, logps_BT.neg(), torch.ones(3, 1), optional=known)
    return guide.log_q(signals, 0)[:, 0]


def test_an_exponent_of_1_is_no_guide_and_a_rare_token_is_clamped():
    assert RapoGuide().exponents == (0.5, 1.0)
    assert log_q(RapoGuide(), right=True).tolist() == [0, 0, 0]
    assert RapoGuide().tilts == {0.5}
    assert RapoGuide(phi_wrong=1.0).tilts == frozenset()
    rare = torch.tensor([[-200.0]])
    known = {
        "reference_logps_BT": rare,
        "reference_tilted_logps_BT": rare / 2,
        "right_B": torch.tensor([False]),
    }
    signals = Signals(rare, -rare, torch.ones(1, 1), optional=known)
    # exp(100) is infinite in single precision
    assert RapoGuide().log_q(signals, 0).item() == pytest.approx(math.log(100), abs=1e-6)


def test_the_divergence_has_the_gradient_of_the_published_loss():
    """-sg(u) log pi with u = P^ / pi, whose gradient k3 has in expectation."""
    u_V = tilted(0.5).exp() / PI_V
    logits_V = PI_V.log().requires_grad_()
    log_pi_V = logits_V.log_softmax(dim=0)
    ours = PI_V * k3(log_pi_V, P_V.log(), log_q(RapoGuide(), right=False))
    published = -PI_V * u_V * log_pi_V
    (of_ours,) = torch.autograd.grad(ours.sum(), logits_V, retain_graph=True)
    (of_published,) = torch.autograd.grad(published.sum(), logits_V)
    # the forward KL's: pi - P^
    torch.testing.assert_close(of_ours, PI_V - tilted(0.5).exp(), atol=1e-12, rtol=0)
    torch.testing.assert_close(of_published, of_ours, atol=1e-12, rtol=0)
