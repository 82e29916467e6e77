"""Divergences and advantages by hand."""

from __future__ import annotations

import math

import pytest
import torch
from enumeration import k3_corrected
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sage_cli.guides.divergences import (
    forward_cross_entropy,
    k3,
    log_ratio,
    reward_to_go,
)
from sage_cli.methods.formulas import (
    beta_advantages,
    centred_advantages,
    group_advantages,
)


def row(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


def test_log_ratio_and_k3_by_hand():
    logps, reference, log_q = row(-1.0, -2.0), row(-1.5, -2.0), row(0.2, 0.0)
    # d = -1.5 + .2 + 1 = -.3 and 0
    torch.testing.assert_close(log_ratio(logps, reference, log_q), row(0.3, 0.0))
    expected = row(math.exp(-0.3) + 0.3 - 1, 0.0)
    torch.testing.assert_close(k3(logps, reference, log_q), expected)
    old = row(-1.1, -2.0)
    corrected = k3_corrected(logps, reference, old, log_q)
    torch.testing.assert_close(corrected, expected * row(math.exp(0.1), 1.0))


finite = st.floats(-20, 0)


@given(finite, finite, st.floats(-0.5, 0.35))
def test_k3_is_never_negative(logp: float, reference: float, log_q: float):
    assert k3(row(logp), row(reference), row(log_q)).item() >= -1e-12


def test_reward_to_go_by_hand():
    # sums over this token and later ones: .6, .5, .3; the masked token counts nowhere
    found = reward_to_go(row(0.1, 0.2, 0.3, 9.0), row(1, 1, 1, 0), beta=0.5)
    torch.testing.assert_close(found, row(-0.3, -0.25, -0.15, 0.0))


def test_forward_cross_entropy_by_hand():
    logps_BT = torch.tensor([[-1.0, -3.0, -9.0], [-4.0, -9.0, -9.0]])
    mask_BT = torch.tensor([[1, 1, 0], [1, 0, 0]])
    # row means 2 and 4
    assert forward_cross_entropy(logps_BT, mask_BT).item() == pytest.approx(3)


REWARDS_PN = torch.tensor([[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 0, 0.0]], dtype=torch.float64)


def test_group_and_centred_advantages_by_hand():
    # first row: mean 1/4, squared deviations 9/16 + 3/16 = 3/4, over n - 1 = 3: std 1/2
    found = group_advantages(REWARDS_PN)
    torch.testing.assert_close(found[0], row(0.75, -0.25, -0.25, -0.25)[0] / (0.5 + 1e-4))
    assert (found[2] == 0).all()
    torch.testing.assert_close(centred_advantages(REWARDS_PN)[1], row(0.25, 0.25, 0.25, -0.75)[0])


def test_beta_advantages_against_scipy():
    found = beta_advantages(REWARDS_PN)
    # p = 1/4, 3/4, 0: mean 1/3, variance (1/144 + 25/144 + 16/144) / 3 = 42/432 = 7/72
    s = (1 / 3 * 2 / 3) / (7 / 72) - 1
    density = stats.beta(max(1, 1 + s / 9), max(1, 1 + 2 * s / 9))
    torch.testing.assert_close(found[0], row(0.75, -0.25, -0.25, -0.25)[0] / density.pdf(0.25))
    torch.testing.assert_close(found[1], row(0.25, 0.25, 0.25, -0.75)[0] / density.pdf(0.75))
    assert (found[2] == 0).all()


def test_beta_gives_nothing_to_groups_of_equal_grades():
    assert (beta_advantages(torch.tensor([[1, 1, 1.0], [0, 0, 0]])) == 0).all()


@pytest.mark.parametrize("groups", [1, 3])
def test_beta_falls_back_where_all_groups_are_alike(groups: int):
    rewards_PN = REWARDS_PN[:1].repeat(groups, 1)
    torch.testing.assert_close(beta_advantages(rewards_PN), group_advantages(rewards_PN))
