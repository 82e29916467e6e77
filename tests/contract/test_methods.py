"""Every built-in method keeps the contract that users' own methods inherit."""

from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from sage_examples.method import Unsolved

from sage_cli.errors import TrainingError
from sage_cli.methods.best_of_k import Pkpo
from sage_cli.methods.effective_rank import EffectiveRank
from sage_cli.methods.initial_texts import AlphaDpg
from sage_cli.methods.loop import Method
from sage_cli.methods.policy_gradient import PolicyGradient
from sage_cli.methods.reweighted import Mara, Nsr, Psr, Unlikeliness, WReinforce
from sage_cli.methods.token_shapes import ClipCov, KlCov, Steer
from sage_cli.settings.section import built_in
from sage_cli.testing import MethodContract

EQUAL_GROUPS_TEACH = {"zero_in_equal_groups": False}
IN_A_MICRO_BATCH = {"reads_the_micro_batch": True}
CASES = [
    *((name, method(), {}) for name, method in built_in(Method).items()),
    ("beta", built_in(Method)["grpo"](advantage="beta"), {}),
    ("pkpo, leave one out", Pkpo(k=3, form="leave-one-out"), EQUAL_GROUPS_TEACH),
    ("effective-rank, short", EffectiveRank(stride=2), {}),
    ("steer of the paper", Steer(form="exp", omega="paper", minimum_weight=0.7), {}),
    ("clip-cov, many", ClipCov(covariance_low=0.1, share=0.2), {}),
    ("kl-cov, many", KlCov(share=0.9), {}),
    ("the example", Unsolved(gamma=2), {}),
]
OWN = {
    Steer: IN_A_MICRO_BATCH,
    ClipCov: IN_A_MICRO_BATCH,
    **dict.fromkeys((AlphaDpg, Mara, Nsr, Psr, Unlikeliness, WReinforce), EQUAL_GROUPS_TEACH),
    KlCov: {**IN_A_MICRO_BATCH, "zero_stays_zero": False, "carries_gradient": True},
}
"""What methods say of themselves, as a test class of one's own does."""
TESTS = [name for name in vars(MethodContract) if name.startswith("test_")]


def suite(method, **said):
    class Suite(MethodContract):
        def make(self):
            return method

        def advantages(self, inputs):
            # what alpha-dpg's hooks find out before the first batch
            inputs.memory.setdefault("solved", dict.fromkeys(inputs.problem_ids_B, 0.25))
            return super().advantages(inputs)

    for name, value in said.items():
        setattr(Suite, name, value)
    return Suite()


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize(
    ("method", "said"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_method_keeps_the_contract(method, said, test):
    getattr(suite(method, **OWN.get(type(method), {}), **said), test)()


def test_the_example_gives_half_solved_groups_half_the_advantage():
    """Groups with 0, 1, 3, 4 and 2 of 4 right: (1 - p)^1 = 3/4, 1/4, 1/2."""
    inputs = suite(Unsolved()).inputs()
    plain, weighted = (Unsolved(gamma=g).advantages(inputs).reshape(5, 4) for g in (0, 1))
    for group, weight in ((1, 0.75), (2, 0.25), (4, 0.5)):
        torch.testing.assert_close(weighted[group], weight * plain[group])


class Mine(PolicyGradient):
    """Advantages and shape of a test's own."""

    algo: Literal["mine"] = "mine"
    source = "this test"
    given: Any = None
    """The formula."""

    def advantages(self, inputs):
        return self.given(inputs)


class Shaped(Mine):
    """The same of a shape."""

    algo: Literal["shaped"] = "shaped"
    shapes_tokens = True

    def advantages(self, inputs):
        return PolicyGradient.advantages(self, inputs)

    def shape(self, update):
        return self.given(update)


def hesitant(inputs):
    """Per token: the group's advantage and more of it where the policy hesitated."""
    advantage_B1 = PolicyGradient().advantages(inputs)[:, None]
    bonus_BT = torch.minimum(0.1 * inputs.entropy_BT, advantage_B1.abs() / 2)
    return (advantage_B1 + bonus_BT) * inputs.mask_BT


def above_half(inputs):
    return inputs.rewards_PN.flatten() - 0.5


def against_the_first(inputs):
    return (inputs.rewards_PN - inputs.rewards_PN.mean(dim=1)[0]).flatten()


FORMULAS = [t for t in TESTS if not t.startswith("test_its_") and not t.startswith("test_it_")]


@pytest.mark.parametrize("test", FORMULAS)
@pytest.mark.parametrize(
    ("formula", "said"),
    [
        (hesitant, {}),
        (above_half, {"zero_in_equal_groups": False}),
        (against_the_first, {"zero_in_equal_groups": False, "order_of_groups_matters": True}),
    ],
)
def test_what_a_method_says_of_itself_is_let_pass(formula, said, test):
    getattr(suite(Mine(given=formula), **said), test)()


def scribbling(inputs):
    inputs.rewards_PN.sub_(inputs.rewards_PN.mean(dim=1, keepdim=True))
    return inputs.rewards_PN.flatten()


def undefined(inputs):
    rewards_PN = inputs.rewards_PN
    centred_PN = rewards_PN - rewards_PN.mean(dim=1, keepdim=True)
    return (centred_PN / rewards_PN.std(dim=1, keepdim=True)).flatten()


def random(inputs):
    return torch.rand(inputs.rewards_PN.numel())


class Silent(PolicyGradient):
    algo: Literal["silent"] = "silent"
    scale: float = 1.0


class Idle(Mine):
    algo: Literal["idle"] = "idle"
    max_extra_generations: int = 3
    delta: float | None = 5.0


def drawn(update):
    return torch.rand(update.mask_BT.shape) * update.advantages_BT


FAULTS = {
    Mine: [
        (lambda inputs: inputs.rewards_PN, "finite_for_each_completion_or_token"),
        (lambda inputs: 0.5, "finite_for_each_completion_or_token"),
        (undefined, "finite_for_each_completion_or_token"),
        (scribbling, "inputs_stay_as_they_are"),
        (random, "deterministic"),
        (above_half, "zero_where_a_groups_rewards_are_equal"),
        (against_the_first, "prompts_may_come_in_any_order"),
    ],
    Shaped: [
        (lambda update: update.advantages_BT[:, 0], "nothing_moves_the_policy"),
        (lambda update: update.advantages_BT / 0, "nothing_moves_the_policy"),
        (lambda update: update.advantages_BT * update.logps_BT, "nothing_moves_the_policy"),
        (lambda update: update.entropy_BT.mul_(2) * 0, "inputs_stay_as_they_are"),
        (drawn, "deterministic"),
        (lambda update: update.advantages_BT * update.entropy_BT.mean(), "what_is_masked"),
        (lambda update: update.advantages_BT + update.entropy_BT, "zero_stays_zero"),
        (
            lambda update: update.advantages_BT - update.advantages_BT.mean(),
            "rows_may_be_divided_among_micro_batches",
        ),
    ],
}


@pytest.mark.parametrize(
    ("method", "test"),
    [
        *(
            (kind(given=formula), test)
            for kind, faults in FAULTS.items()
            for formula, test in faults
        ),
        (Silent(), "it_says_its_name_and_its_source"),
        (Silent(), "its_own_settings_are_explained"),
        (Idle(), "its_defaults_can_be_trained"),
    ],
)
def test_the_suite_finds_each_fault(method, test):
    (name,) = (name for name in TESTS if name.startswith(f"test_{test}"))
    with pytest.raises((AssertionError, TrainingError)):
        getattr(suite(method), name)()


def test_without_a_shape_an_update_takes_the_batchs_advantages():
    update = suite(Steer()).update()
    changed = replace(update, advantages_BT=update.advantages_BT + 1)
    assert torch.equal(suite(Pkpo()).shaped(changed), changed.advantages_BT)
