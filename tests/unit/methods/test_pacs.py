"""PACS's losses and gradients, by hand and by autograd."""

import math

import pytest
import torch

from sage_cli.methods.pacs import label_weights, pacs

ONE_OF_FOUR = torch.tensor([[1.0, 0, 0, 0]], dtype=torch.float64)


def test_on_policy_it_is_leave_one_out_and_groups_of_one_grade_weigh_one():
    score_PN = torch.zeros(1, 4, dtype=torch.float64)
    # h = r - 1/2: 1/2, -1/2 x3; less the others' mean: 1/2 + 1/2; -1/2 - (1/2 - 1) / 3 = -1/3
    loss_PN, a_PN = pacs(score_PN, ONE_OF_FOUR, weighted=False)
    assert a_PN[0].tolist() == pytest.approx([1, -1 / 3, -1 / 3, -1 / 3])
    assert loss_PN.mean().item() == pytest.approx(math.log(2))
    # weights 4 / 2 and 4 / 6: h = 1, -1/3 x3; 1 + 1/3; -1/3 - (1 - 2/3) / 3 = -4/9
    loss_PN, a_PN = pacs(score_PN, ONE_OF_FOUR, weighted=True)
    assert a_PN[0].tolist() == pytest.approx([4 / 3, -4 / 9, -4 / 9, -4 / 9])
    assert loss_PN.mean().item() == pytest.approx(math.log(2))  # the weights' mean is 1
    right_PN = torch.tensor([[0.0, 0, 0], [1, 1, 1], [1, 1, 0]])
    # three, two right: 3 / 4 each, one wrong: 3 / 2
    assert label_weights(right_PN).tolist() == [[1, 1, 1], [1, 1, 1], [0.75, 0.75, 1.5]]
    _, a_PN = pacs(torch.zeros(3, 3), right_PN, weighted=True)
    assert a_PN[:2].abs().max() < 1e-7


@pytest.mark.parametrize("weighted", [True, False])
def test_what_is_given_as_gradient_is_the_gradient(weighted):
    generator = torch.Generator().manual_seed(3)
    score_PN = torch.randn(3, 5, generator=generator, dtype=torch.float64).requires_grad_()
    right_PN = torch.tensor([[1, 0, 0, 1, 0], [0] * 5, [1] * 5], dtype=torch.float64)
    loss_PN, a_PN = pacs(score_PN, right_PN, weighted=weighted)
    (gradient_PN,) = torch.autograd.grad(loss_PN.sum(), score_PN)
    torch.testing.assert_close(-gradient_PN, a_PN.detach())
