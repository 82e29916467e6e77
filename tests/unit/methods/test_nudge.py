"""NudgeRL's advantages by hand, and which rollouts have which context."""

from __future__ import annotations

import pytest
import torch

from sage_cli.methods.nudge.formula import PLAIN, contexts_of, nudged_advantages


def of(rewards: list[float], contexts: list[int], between: float = 1.1) -> list[float]:
    found = nudged_advantages(
        torch.tensor([rewards], dtype=torch.float64), torch.tensor([contexts]), between
    )
    return found[0].tolist()


def test_two_contexts_by_hand():
    # means 3/4 and 1/4, of all 1/2: right ones have 1/4 + 1.1/4 = .525 and 3/4 - 1.1/4 = .475,
    # wrong ones the negatives; squares (3 x .525^2 + .475^2) / 4 = .263125, root .5129571
    expected = [1.023457, 1.023457, -0.925985, 1.023457, -1.023457, -1.023457, -1.023457, 0.925985]
    found = of([1, 1, 0, 1, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1, 1, 1])
    assert found == pytest.approx(expected, abs=1e-6)


def test_a_plain_rollout_has_no_context_to_be_beyond():
    # mean 1/2. Context 0 (rewards 1, 1): 0 + 2 x (1 - 1/2) = 1 each; plain ones -1/2 each.
    # Mean 1/4, deviation 3/4: 1 and -1
    found = of([1, 1, 0, 0], [0, 0, PLAIN, PLAIN], between=2.0)
    assert found == pytest.approx([1, 1, -1, -1], abs=1e-4)


def test_without_contexts_it_is_the_z_score_of_the_population():
    # mean 1/4, deviation sqrt(3)/4
    plain = [PLAIN] * 4
    assert of([1, 0, 0, 0], plain) == pytest.approx([3**0.5, *[-(3**-0.5)] * 3], abs=1e-4)
    assert of([1, 1, 1, 1], plain) == [0.0] * 4


def test_weight_one_between_contexts_is_as_without_them():
    rewards = [1.0, 0.0, 1.0, 0.0, 0.0, 1.0]
    nudged = of(rewards, [0, 0, 0, 1, 1, 1], between=1.0)
    assert nudged == pytest.approx(of(rewards, [PLAIN] * 6), abs=1e-12)


def test_each_group_has_means_of_its_own():
    rewards_PN = torch.tensor([[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]])
    context_PN = torch.tensor([[0, 0, 1, PLAIN], [PLAIN, 1, 1, 0]])
    together = nudged_advantages(rewards_PN, context_PN, 1.1)
    for row in range(2):
        alone = nudged_advantages(rewards_PN[row : row + 1], context_PN[row : row + 1], 1.1)
        torch.testing.assert_close(together[row : row + 1], alone)


def test_rollouts_are_divided_among_contexts_and_some_dropped():
    assert contexts_of(2, 8, 0.0, (1, 2, 3)) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert contexts_of(3, 4, 0.0, (1, 2, 3)) == [0, 0, 1, 2]
    assert contexts_of(2, 4, 1.0, (1, 2, 3)) == [PLAIN] * 4
    assert contexts_of(0, 4, 0.0, (1, 2, 3)) == [PLAIN] * 4
    some = contexts_of(2, 4_000, 0.3, (1, 2, 3))
    # 4 deviations of a share of .3 of 4,000
    assert some.count(PLAIN) / 4_000 == pytest.approx(0.3, abs=0.029)
    assert some == contexts_of(2, 4_000, 0.3, (1, 2, 3)) != contexts_of(2, 4_000, 0.3, (1, 2, 4))
