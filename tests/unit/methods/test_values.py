"""Advantages of groups by hand."""

import pytest
import torch
from scipy import stats

from sage_cli.methods.formulas import beta_advantages, centred_advantages, group_advantages


def row(*values):
    return torch.tensor([values], dtype=torch.float64)


REWARDS_PN = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0.0]], dtype=torch.float64)


def test_advantages_by_hand_and_against_scipy():
    # first row: mean 1/4, squared deviations 9/16 + 3/16 = 3/4, over n - 1 = 3: std 1/2
    found = group_advantages(REWARDS_PN)
    torch.testing.assert_close(found[0], row(0.75, -0.25, -0.25, -0.25)[0] / (0.5 + 1e-4))
    assert (found[2] == 0).all()
    torch.testing.assert_close(centred_advantages(REWARDS_PN)[1], row(0.25, 0.25, 0.25, -0.75)[0])
    found = beta_advantages(REWARDS_PN)
    # p = 1/4, 3/4, 0: mean 1/3, variance (1/144 + 25/144 + 16/144) / 3 = 42/432 = 7/72
    s = (1 / 3 * 2 / 3) / (7 / 72) - 1
    density = stats.beta(max(1, 1 + s / 9), max(1, 1 + 2 * s / 9))
    torch.testing.assert_close(found[0], row(0.75, -0.25, -0.25, -0.25)[0] / density.pdf(0.25))
    torch.testing.assert_close(found[1], row(0.25, 0.25, 0.25, -0.75)[0] / density.pdf(0.75))
    assert (found[2] == 0).all()
    assert (beta_advantages(torch.tensor([[1, 1, 1.0], [0, 0, 0]])) == 0).all()


@pytest.mark.parametrize("groups", [1, 3])
def test_beta_falls_back_where_all_groups_are_alike(groups):
    rewards_PN = REWARDS_PN[:1].repeat(groups, 1)
    torch.testing.assert_close(beta_advantages(rewards_PN), group_advantages(rewards_PN))
