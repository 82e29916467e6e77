"""Every built-in advantage keeps the contract that users' own advantages inherit."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from sage_cli.errors import TrainingError
from sage_cli.objectives import AdvantageFunction, AdvantageInputs, group_advantages
from sage_cli.objectives.advantages import BUILT_IN
from sage_cli.objectives.contract import AdvantageContract


class TestGroup(AdvantageContract):
    def make(self) -> AdvantageFunction:
        return BUILT_IN["group"]


class TestNone(AdvantageContract):
    def make(self) -> AdvantageFunction:
        return BUILT_IN["none"]


class TestBeta(AdvantageContract):
    def make(self) -> AdvantageFunction:
        return BUILT_IN["beta"]


def hesitant(inputs: AdvantageInputs, *, weight: float = 0.4) -> Tensor:
    """Per token: the group's advantage and more of it where the policy hesitated."""
    advantage_B1 = group_advantages(inputs.rewards_PN).reshape(-1, 1)
    bonus_BT = torch.minimum(weight * inputs.entropy_BT, advantage_B1.abs() / 2)
    return (advantage_B1 + bonus_BT) * inputs.mask_BT


class TestOnePerToken(AdvantageContract):
    def make(self) -> AdvantageFunction:
        return partial(hesitant, weight=0.1)


def above_half(inputs: AdvantageInputs) -> Tensor:
    return inputs.rewards_PN.flatten() - 0.5


class TestWithoutABaselineOfTheGroup(AdvantageContract):
    zero_in_equal_groups = False

    def make(self) -> AdvantageFunction:
        return above_half


def against_the_first(inputs: AdvantageInputs) -> Tensor:
    return (inputs.rewards_PN - inputs.rewards_PN.mean(dim=1)[0]).flatten()


class TestAgainstTheFirstGroup(AdvantageContract):
    zero_in_equal_groups = False
    order_of_groups_matters = True

    def make(self) -> AdvantageFunction:
        return against_the_first


def scribbling(inputs: AdvantageInputs) -> Tensor:
    inputs.rewards_PN.sub_(inputs.rewards_PN.mean(dim=1, keepdim=True))
    return inputs.rewards_PN.flatten()


def undefined(inputs: AdvantageInputs) -> Tensor:
    rewards_PN = inputs.rewards_PN
    centred_PN = rewards_PN - rewards_PN.mean(dim=1, keepdim=True)
    return (centred_PN / rewards_PN.std(dim=1, keepdim=True)).flatten()


def random(inputs: AdvantageInputs) -> Tensor:
    return torch.rand(inputs.rewards_PN.numel())


@pytest.mark.parametrize(
    ("function", "test"),
    [
        (lambda inputs: inputs.rewards_PN, "one_for_each_completion_or_token"),
        (lambda inputs: 0.5, "one_for_each_completion_or_token"),
        (undefined, "finite"),
        (scribbling, "inputs_stay_as_they_are"),
        (random, "deterministic"),
        (above_half, "zero_where_a_groups_rewards_are_equal"),
        (against_the_first, "prompts_may_come_in_any_order"),
    ],
)
def test_the_suite_finds_each_fault(function: AdvantageFunction, test: str):
    class Suite(AdvantageContract):
        def make(self) -> AdvantageFunction:
            return function

    with pytest.raises((AssertionError, TrainingError)):
        getattr(Suite(), f"test_{test}")()
