"""RLPR's reward, by hand."""

import pytest
import torch

from sage_cli.methods.rlpr import probability_reward, repeats_itself, running_spread, telling_groups


def test_the_reward_by_hand_and_repetitions():
    # .9 (.75 - .25) + .1
    assert probability_reward(0.75, 0.25, formed=True, repeats=False) == pytest.approx(0.55)
    assert probability_reward(0.75, 0.25, formed=False, repeats=False) == pytest.approx(0.45)
    # less probable than at the start: nothing but the format
    assert probability_reward(0.1, 0.25, formed=True, repeats=False) == pytest.approx(0.1)
    assert probability_reward(0.75, 0.25, formed=True, repeats=True) == -1
    sentence = "one two three four five six seven eight nine ten"
    assert repeats_itself(" so ".join([sentence] * 10))
    assert not repeats_itself(" so ".join([sentence] * 9))
    # 19 equal words hold ten windows of ten, 18 nine
    assert repeats_itself("a " * 19)
    assert not repeats_itself("a " * 18)
    assert not repeats_itself("")


def test_groups_far_below_the_average_of_steps_before_teach_nothing():
    before = [9.0] * 5 + [0.1, 0.2, 0.3, 0.4]
    assert running_spread([]) is None
    assert running_spread(before) is None  # step 10 isn't over
    assert running_spread([*before, 0.5]) == pytest.approx(0.3)  # step 11: 1.5 / 5
    # step 12: .99 x .3 + .01 x .8; step 13: .99 x .305 + .01 x .1
    assert running_spread([*before, 0.5, 0.8]) == pytest.approx(0.305)
    assert running_spread([*before, 0.5, 0.8, 0.1]) == pytest.approx(0.30295)
    spread_P = torch.tensor([0.0, 0.1, 0.3])
    assert telling_groups(spread_P, 0.2, 0.5).tolist() == [False, True, True]
    assert telling_groups(spread_P, None, 0.5).tolist() == [True] * 3
    assert telling_groups(spread_P, 0.2, 0.0).tolist() == [True] * 3
