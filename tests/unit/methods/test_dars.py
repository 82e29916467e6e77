"""DARS's second stage and its pools, by hand."""

import pytest
import torch

from sage_cli.methods.dars import extra_rollouts, pooled_advantages


def test_pools_by_hand_the_harder_the_more():
    # N = 8. c = 0: a = 1/16, W = 15/128, 8 W = .9375; et (4 - .9375) / W = 26.1, at most 24;
    # hw (2 x 15/16 x 4 - .9375) / W = 56
    # c = 1: W = 7/32, 8 W = 1.75; et 2.25 / W = 10.3; hw (7 - 1.75) / W = 24
    # c = 2: W = 3/8; et 1 / W = 2.67; hw (6 - 3) / W = 8; c = 3: W = 15/32; et .53, hw 2.67
    assert [extra_rollouts(c, 8, "et", 32) for c in range(9)] == [24, 11, 3, 1, 0, 0, 0, 0, 0]
    assert [extra_rollouts(c, 8, "hw", 64) for c in range(9)] == [56, 24, 8, 3, 0, 0, 0, 0, 0]
    # prompt 0: 1 of 4 right in two stages; prompt 1: none of 2; prompt 2: 1 of 2, and a row that
    # only fills up; prompt 3: both right
    reward_B = torch.tensor([0.0, 1, 0, 0, 0, 1, 0, 0, 1, 1, 1])
    prompt_B = torch.tensor([0, 0, 1, 1, 2, 2, 0, 0, 2, 3, 3])
    real_B = torch.tensor([1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1]).bool()
    advantage_B, teaches_B = pooled_advantages(reward_B, reward_B == 1, prompt_B, real_B)
    expected = [True, True, False, False, True, True, True, True, False, False, False]
    assert teaches_B.tolist() == expected
    taught = advantage_B[teaches_B].tolist()
    assert taught == pytest.approx([-0.25, 0.75, -0.5, 0.5, -0.25, -0.25])
