"""RAPO's tilted reference on three tokens, by hand and by enumeration."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from sage_cli.guides import RapoGuide, Signals
from sage_cli.guides.divergences import k3
from sage_cli.guides.guide import OptionalSignal
from sage_cli.models.signals import tilted_temperature

P_V = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
PI_V = torch.tensor([0.5, 0.4, 0.1], dtype=torch.float64)
# sqrt(.6, .3, .1) = .774597, .547723, .316228, whose sum is 1.638547
TILTED_V = [0.472734, 0.334273, 0.192993]


def tilted(phi: float) -> Tensor:
    """Return log P^phi / sum P^phi as the trainer computes it: at another temperature."""
    return (P_V.log() / tilted_temperature(1.0, phi)).log_softmax(dim=0)


def log_q(guide: RapoGuide, right: bool) -> Tensor:
    """Return log q of each of the three tokens, a row each."""
    phi = guide.exponents[right]
    logps_BT = P_V.log()[:, None]
    known: dict[OptionalSignal, Any] = {
        "reference_logps_BT": logps_BT,
        "reference_tilted_logps_BT": (logps_BT[:, 0] if phi == 1 else tilted(phi))[:, None],
        "right_B": torch.full((3,), right),
    }
    signals = Signals(logps_BT, logps_BT.neg(), torch.ones(3, 1), optional=known)
    return guide.log_q(signals, 0)[:, 0]


def test_the_anchor_is_the_tilted_reference():
    flat_V = P_V * log_q(RapoGuide(phi_wrong=0.5), right=False).exp()
    assert flat_V.tolist() == pytest.approx(TILTED_V, abs=1e-6)
    uniform_V = P_V * log_q(RapoGuide(phi_wrong=0.0), right=False).exp()
    assert uniform_V.tolist() == pytest.approx([1 / 3] * 3, abs=1e-5)
    # P^.25 = .880112, .740083, .562341, whose sum is 2.182536
    other_V = P_V * log_q(RapoGuide(phi_right=0.25, phi_wrong=0.9), right=True).exp()
    assert other_V.tolist() == pytest.approx([0.403252, 0.339093, 0.257655], abs=1e-5)


def test_an_exponent_of_1_is_no_guide_to_the_last_bit():
    assert RapoGuide().exponents == (0.5, 1.0)
    assert log_q(RapoGuide(), right=True).tolist() == [0, 0, 0]
    assert RapoGuide().tilts == {0.5}
    assert RapoGuide(phi_wrong=1.0).tilts == frozenset()


def test_the_divergence_has_the_values_and_the_gradient_of_the_published_loss():
    """u log u - u + 1 with u = P^ / pi, and -sg(u) log pi, whose gradient k3 has in expectation."""
    u_V = tilted(0.5).exp() / PI_V
    terms_V = u_V * u_V.log() - u_V + 1
    # u .945468, .835683, 1.929932: .945468 x -.056075 + .054532 = .001515 and so on
    assert terms_V.tolist() == pytest.approx([0.001515, 0.014307, 0.338966], abs=1e-6)
    assert (PI_V * terms_V).sum().item() == pytest.approx(0.0403767, abs=1e-7)

    logits_V = PI_V.log().requires_grad_()
    log_pi_V = logits_V.log_softmax(dim=0)
    ours = PI_V * k3(log_pi_V, P_V.log(), log_q(RapoGuide(), right=False))
    published = -PI_V * u_V * log_pi_V
    (of_ours,) = torch.autograd.grad(ours.sum(), logits_V, retain_graph=True)
    (of_published,) = torch.autograd.grad(published.sum(), logits_V)
    # the forward KL's: pi - P^
    torch.testing.assert_close(of_ours, PI_V - tilted(0.5).exp(), atol=1e-12, rtol=0)
    torch.testing.assert_close(of_published, of_ours, atol=1e-12, rtol=0)


def test_a_rare_token_is_clamped():
    rare = torch.tensor([[-200.0]])
    known: dict[OptionalSignal, Any] = {
        "reference_logps_BT": rare,
        "reference_tilted_logps_BT": rare / 2,
        "right_B": torch.tensor([False]),
    }
    signals = Signals(rare, -rare, torch.ones(1, 1), optional=known)
    # exp(100) is infinite in single precision
    assert RapoGuide().log_q(signals, 0).item() == pytest.approx(math.log(100), abs=1e-6)
