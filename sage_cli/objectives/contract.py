"""What every advantage owes the trainer, as a test class to inherit.

    class TestMyAdvantage(AdvantageContract):
        def make(self) -> AdvantageFunction:
            return functools.partial(my_advantage, scale=0.5)

needs pytest (or any runner that calls `test_*` methods) and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from sage_cli.objectives.advantage import Advantage, AdvantageFunction, AdvantageInputs

PROMPTS, COMPLETIONS, TOKENS, STEP, STEPS = 5, 4, 9, 3, 10
EQUAL_GROUPS = (0, 3)
"""Prompts whose completions are all wrong, and all right."""


class AdvantageContract(ABC):
    """Shape kept, finite, without gradient, deterministic, the same for any order of prompts.

    A class whose advantage isn't 0 where a group's rewards are all equal says so by
    `zero_in_equal_groups = False`; one that depends on the order of the groups, by
    `order_of_groups_matters = True`.
    """

    zero_in_equal_groups = True
    order_of_groups_matters = False

    @abstractmethod
    def make(self) -> AdvantageFunction:
        """The advantage under test."""

    def inputs(self) -> AdvantageInputs:
        """Five prompts with four completions of 1 to 9 tokens; signals carry gradients."""
        generator = torch.Generator().manual_seed(5)
        right_PN = torch.tensor(
            [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 1], [1, 1, 1, 1], [0, 1, 1, 0]]
        ).float()
        lengths_B1 = torch.randint(1, TOKENS + 1, (PROMPTS * COMPLETIONS, 1), generator=generator)
        mask_BT = (torch.arange(TOKENS) < lengths_B1).long()
        logps_BT = (-3 * torch.rand(mask_BT.shape, generator=generator)).requires_grad_()
        entropy_BT = (4 * torch.rand(mask_BT.shape, generator=generator)).requires_grad_()
        hidden_BTD = torch.randn((*mask_BT.shape, 3), generator=generator)
        return AdvantageInputs(
            right_PN.clone(),
            right_PN,
            mask_BT,
            STEP,
            STEPS,
            lambda: (logps_BT, entropy_BT),
            lambda measure: torch.stack(
                [measure(hidden_TD[mask_T.bool()])
                 for hidden_TD, mask_T in zip(hidden_BTD, mask_BT, strict=True)]
            ),
        )  # fmt: skip

    def test_one_for_each_completion_or_token(self) -> None:
        """(B,) or (B, T), in the rewards' type."""
        inputs = self.inputs()
        advantages = self.advantages(inputs)
        assert advantages.shape in (inputs.mask_BT.shape, inputs.mask_BT.shape[:1])
        assert advantages.dtype == inputs.rewards_PN.dtype

    def test_finite(self) -> None:
        """Neither NaN nor infinity, also where a group's deviation is 0."""
        assert torch.isfinite(self.advantages(self.inputs())).all()

    def test_no_gradient_flows_through_it(self) -> None:
        """It weighs the policy's gradient and has none itself."""
        assert not self.advantages(self.inputs()).requires_grad

    def test_inputs_stay_as_they_are(self) -> None:
        """Rewards, verdicts and mask are recorded afterwards."""
        inputs, untouched = self.inputs(), self.inputs()
        self.advantages(inputs)
        for name in ("rewards_PN", "right_PN", "mask_BT", "logps_BT", "entropy_BT"):
            assert torch.equal(getattr(inputs, name), getattr(untouched, name)), name

    def test_deterministic(self) -> None:
        """Two calls agree, and the global generator is neither read nor moved."""
        torch.manual_seed(0)
        before = torch.get_rng_state()
        first = self.advantages(self.inputs())
        assert torch.equal(before, torch.get_rng_state())
        torch.manual_seed(1)
        assert torch.equal(first, self.advantages(self.inputs()))

    def test_zero_where_a_groups_rewards_are_equal(self) -> None:
        """There is nothing to tell its completions apart by."""
        if self.zero_in_equal_groups:
            inputs = self.inputs()
            of_groups = self.advantages(inputs).reshape(PROMPTS, COMPLETIONS, -1)
            mask = inputs.mask_BT.reshape(PROMPTS, COMPLETIONS, TOKENS)
            for prompt in EQUAL_GROUPS:
                assert (of_groups[prompt] * mask[prompt] == 0).all()

    def test_prompts_may_come_in_any_order(self) -> None:
        """Which process or place a group has decides nothing."""
        if not self.order_of_groups_matters:
            inputs, order_P = self.inputs(), torch.tensor([2, 0, 4, 3, 1])
            expected = self.advantages(inputs).reshape(PROMPTS, COMPLETIONS, -1)[order_P]
            found = self.advantages(_reordered(inputs, order_P))
            torch.testing.assert_close(found.reshape(expected.shape), expected)

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """As the trainer gets them: checked, without gradient."""
        return Advantage(type(self).__name__, self.make())(inputs)


def _reordered(inputs: AdvantageInputs, order_P: Tensor) -> AdvantageInputs:
    """The same groups, prompts in another order."""

    def rows(values_BT: Tensor) -> Tensor:
        return values_BT.reshape(PROMPTS, COMPLETIONS, TOKENS)[order_P].reshape(-1, TOKENS)

    return AdvantageInputs(
        inputs.rewards_PN[order_P],
        inputs.right_PN[order_P],
        rows(inputs.mask_BT),
        inputs.step,
        inputs.steps,
        lambda: (rows(inputs.logps_BT), rows(inputs.entropy_BT)),
        lambda measure: (
            inputs.of_hidden(measure).reshape(PROMPTS, COMPLETIONS, -1)[order_P].flatten(0, 1)
        ),
    )
