"""Every built-in advantage keeps the contract that users' own advantages inherit."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from sage_cli.config.advantages import BUILT_IN_ADVANTAGES
from sage_cli.errors import TrainingError
from sage_cli.objectives import (
    Advantage,
    AdvantageFunction,
    AdvantageInputs,
    Update,
    build_advantage,
    group_advantages,
)
from sage_cli.objectives.advantage import ShapeFunction
from sage_cli.objectives.built_in import BUILT_IN
from sage_cli.objectives.contract import AdvantageContract
from sage_cli.objectives.shaped_contract import ShapedAdvantageContract


def of(name: str, **options: Any) -> Advantage:
    return build_advantage(name, options)


class TestGroup(AdvantageContract):
    def make(self) -> AdvantageFunction:
        return of("group").function


class TestNone(AdvantageContract):
    def make(self) -> AdvantageFunction:
        return of("none").function


class TestBeta(AdvantageContract):
    def make(self) -> AdvantageFunction:
        return of("beta").function


class TestPassAtK(AdvantageContract):
    def make(self) -> AdvantageFunction:
        return of("pass-at-k", k=2).function


class TestPkpo(AdvantageContract):
    def make(self) -> AdvantageFunction:
        return of("pkpo", k=4).function


class TestPkpoLeaveOneOut(AdvantageContract):
    zero_in_equal_groups = False

    def make(self) -> AdvantageFunction:
        return of("pkpo", k=3, form="leave-one-out").function


class TestVerl(AdvantageContract):
    def make(self) -> AdvantageFunction:
        return of("verl", stride=2).function


def shape_of(name: str, **options: Any) -> ShapeFunction:
    shape = of(name, **options).shape
    assert shape is not None
    return shape


class TestEntropyShaped(ShapedAdvantageContract):
    def make(self) -> ShapeFunction:
        return shape_of("entropy-shaped")


class TestSteer(ShapedAdvantageContract):
    reads_the_micro_batch = True

    def make(self) -> ShapeFunction:
        return shape_of("steer")


class TestSteerOfThePaper(TestSteer):
    def make(self) -> ShapeFunction:
        return shape_of("steer", form="exp", omega="paper", minimum=0.7)


class TestClipCov(ShapedAdvantageContract):
    reads_the_micro_batch = True

    def make(self) -> ShapeFunction:
        return shape_of("clip-cov", low=0.1, share=0.2)


class TestKlCov(ShapedAdvantageContract):
    reads_the_micro_batch = True
    zero_stays_zero = False
    carries_gradient = True

    def make(self) -> ShapeFunction:
        return shape_of("kl-cov", share=0.9)


def test_every_name_has_a_function_and_settings():
    assert list(BUILT_IN) == list(BUILT_IN_ADVANTAGES)


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


def drawn(update: Update) -> Tensor:
    return torch.rand(update.mask_BT.shape) * update.advantages_BT


@pytest.mark.parametrize(
    ("shape", "test"),
    [
        (lambda update: update.advantages_BT[:, 0], "one_finite_advantage_for_each_token"),
        (lambda update: update.advantages_BT / 0, "one_finite_advantage_for_each_token"),
        (lambda update: update.advantages_BT * update.logps_BT, "nothing_moves_the_policy"),
        (lambda update: update.entropy_BT.mul_(2) * 0, "the_micro_batch_stays_as_it_is"),
        (drawn, "deterministic"),
        (lambda update: update.advantages_BT * update.entropy_BT.mean(), "what_is_masked"),
        (lambda update: update.advantages_BT + update.entropy_BT, "zero_stays_zero"),
        (
            lambda update: update.advantages_BT - update.advantages_BT.mean(),
            "rows_may_be_divided_among_micro_batches",
        ),
    ],
)
def test_the_suite_of_updates_finds_each_fault(shape: ShapeFunction, test: str):
    class Suite(ShapedAdvantageContract):
        def make(self) -> ShapeFunction:
            return shape

    (name,) = (one for one in dir(Suite) if one.startswith(f"test_{test}"))
    with pytest.raises((AssertionError, TrainingError)):
        getattr(Suite(), name)()


def test_without_a_shape_an_update_takes_the_batchs_advantages():
    update = TestSteer().update()
    changed = replace(update, advantages_BT=update.advantages_BT + 1)
    assert torch.equal(of("group").shaped(changed), changed.advantages_BT)
