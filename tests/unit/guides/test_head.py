"""The divergence over the head: its value and gradient, against the whole sum."""

import math

import pytest
import torch

from sage_cli.guides.divergences import as_k3, head_kl, k3

P = torch.tensor([0.5, 0.3, 0.15, 0.05], dtype=torch.float64)
REFERENCE = torch.tensor([0.4, 0.4, 0.1, 0.1], dtype=torch.float64)
Q = torch.tensor([1.0, 1.3, 0.7, 1.2], dtype=torch.float64)
"""A guide's factors, another one for each token."""


def estimates(logits_V, head, old_V, q_V):
    """Return what the estimator says for each sampled token, (V,)."""
    logps_V, anchor_V = logits_V.log_softmax(-1), (q_V * REFERENCE).log()
    tokens = len(logps_V)
    in_head_1V = torch.tensor([[v in head for v in range(tokens)]])
    return head_kl(
        logps_V[head].expand(1, tokens, -1),
        anchor_V[head].expand(1, tokens, -1),
        in_head_1V,
        (logps_V - anchor_V)[None],
        (logps_V - old_V.log()).exp()[None],
    )[0]


@pytest.mark.parametrize("head", [[0], [0, 1], [1, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("old", [P, torch.tensor([0.3, 0.4, 0.2, 0.1], dtype=torch.float64)])
@pytest.mark.parametrize("q", [torch.ones_like(P), Q], ids=["plain", "guided"])
def test_in_expectation_it_is_the_whole_divergence_whatever_the_head_is(head, old, q):
    logits_V = P.log().requires_grad_()
    # samples of the old policy weigh their estimates, without gradient
    found = (old * estimates(logits_V, head, old, q)).sum()
    logps_V = logits_V.log_softmax(-1)
    whole = (logps_V.exp() * (logps_V - (q * REFERENCE).log())).sum()
    assert found.item() == pytest.approx(whole.item(), abs=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(found, logits_V),
        torch.autograd.grad(whole, logits_V),
        atol=1e-12,
        rtol=0,
    )


def test_k3_of_its_reference_has_the_divergences_gradient_and_a_constant_value():
    logps_BT = torch.tensor([[-0.3, -2.0]], dtype=torch.float64, requires_grad=True)
    divergence_BT = logps_BT.exp() * torch.tensor([[0.5, -3.0]], dtype=torch.float64)
    found_BT = k3(logps_BT, as_k3(logps_BT, divergence_BT))
    # exp(ln 2) - ln 2 - 1
    assert found_BT.tolist() == [[pytest.approx(1 - math.log(2), abs=1e-12)] * 2]
    torch.testing.assert_close(
        torch.autograd.grad(found_BT.sum(), logps_BT, retain_graph=True),
        torch.autograd.grad(divergence_BT.sum(), logps_BT),
        atol=1e-12,
        rtol=0,
    )
