"""The contract between a method and the trainer, as a test class to inherit.

    class TestMine(MethodContract):
        def make(self) -> Method:
            return Mine(scale=0.5)

needs pytest (or any runner that calls `test_*` methods) and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from sage_cli.guides import NoGuide
from sage_cli.methods.formulas import AdvantageInputs, Shaped, Texts, Update, checked
from sage_cli.methods.loop import Method
from sage_cli.methods.online import OnlineMethod
from sage_cli.settings.anchor import AnchorSection
from sage_cli.settings.data import DataSection
from sage_cli.settings.model import PretrainedModel
from sage_cli.settings.prompt import PromptSection
from sage_cli.settings.rollout import RolloutSection
from sage_cli.settings.section import docstrings

PROMPTS, COMPLETIONS, TOKENS, STEP, STEPS = 5, 4, 9, 3, 10
EQUAL_GROUPS = (0, 3)
"""Prompts whose completions are all wrong, and all right."""
ROWS = 6
ROUNDED = 1e-6
"""How far from 0 an advantage may be that is 0 but for the rounding of a product."""
_READ = ("rewards_PN", "right_PN", "mask_BT", "logps_BT", "entropy_BT")
_READ_AGAIN = ("advantages_BT", "logps_BT", "old_logps_BT", "entropy_BT", "mask_BT")


class MethodContract(ABC):
    """Settings that load and are explained; advantages finite, deterministic, without gradient.

    A class whose advantage isn't 0 where a group's rewards are all equal says so by
    `zero_in_equal_groups = False`; one that depends on the order of the groups, by
    `order_of_groups_matters = True`. Of those that shape tokens, one that depends on which rows
    share a micro-batch says so by `reads_the_micro_batch = True`; one that isn't 0 where the
    group's advantage is, by `zero_stays_zero = False`; one that carries a gradient, by
    `carries_gradient = True`.
    """

    zero_in_equal_groups = True
    order_of_groups_matters = False
    reads_the_micro_batch = False
    zero_stays_zero = True
    carries_gradient = False

    @abstractmethod
    def make(self) -> Method:
        """Return the method under test."""

    def test_it_says_its_name_and_its_source(self) -> None:
        """`--algo` and `sage config algos` show both."""
        method = type(self.make())
        assert method.model_fields["algo"].default == method.name()
        assert method.source

    def test_its_own_settings_are_explained(self) -> None:
        """`sage config explain` prints the string below each setting."""
        method = type(self.make())
        explained = docstrings(method)
        assert [name for name in method.model_fields if not explained.get(name)] == []

    def test_its_defaults_can_be_trained(self) -> None:
        """With the KL term that is its own, nothing is refused."""
        kind = type(self.make())
        method = kind()
        beside = SimpleNamespace(
            anchor=AnchorSection(kl=kind.kl_without_guide, **kind.anchored),
            data=DataSection(),
            guide=NoGuide(),
            model=PretrainedModel(),
            prompt=PromptSection(),
            rollout=RolloutSection(),
        )
        assert method.refusals(beside) == []
        assert kind.model_validate(method.model_dump(mode="json")) == method

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
        reference_BT = -3 * torch.rand(mask_BT.shape, generator=generator)
        rows = range(PROMPTS * COMPLETIONS)
        texts = Texts(
            tuple(f"answer {row}" for row in rows),
            tuple(f"problem {row // COMPLETIONS}" for row in rows),
        )
        return AdvantageInputs(
            right_PN.clone(),
            right_PN,
            mask_BT,
            STEP,
            STEPS,
            lambda: (logps_BT, entropy_BT),
            lambda measure: torch.stack(
                [
                    measure(hidden_TD[mask_T.bool()])
                    for hidden_TD, mask_T in zip(hidden_BTD, mask_BT, strict=True)
                ]
            ),
            beta=0.05,
            read_reference=lambda: reference_BT,
            read_texts=lambda: texts,
        )

    def test_finite_for_each_completion_or_token(self) -> None:
        """(B,) or (B, T), as the trainer checks, without gradient: it weighs the policy's own."""
        assert not self.advantages(self.inputs()).requires_grad

    def test_inputs_stay_as_they_are(self) -> None:
        """Rewards, grades and mask are recorded afterwards; later updates read a micro-batch."""
        inputs, update = self.inputs(), self.update()
        self.advantages(inputs)
        self.shaped(update)
        pairs = ((inputs, self.inputs(), _READ), (update, self.update(), _READ_AGAIN))
        for given, untouched, names in pairs:
            for name in names:
                assert torch.equal(getattr(given, name), getattr(untouched, name)), name

    def test_deterministic(self) -> None:
        """Two calls agree, and the global generator is neither read nor moved."""
        torch.manual_seed(0)
        before = torch.get_rng_state()
        first = self.advantages(self.inputs()), self.shaped(self.update())
        assert torch.equal(before, torch.get_rng_state())
        torch.manual_seed(1)
        assert torch.equal(first[0], self.advantages(self.inputs()))
        assert torch.equal(first[1], self.shaped(self.update()))

    def test_zero_where_a_groups_rewards_are_equal(self) -> None:
        """There is nothing to tell its completions apart by."""
        if self.zero_in_equal_groups:
            inputs = self.inputs()
            of_groups = self.advantages(inputs).reshape(PROMPTS, COMPLETIONS, -1)
            mask = inputs.mask_BT.reshape(PROMPTS, COMPLETIONS, TOKENS)
            for prompt in EQUAL_GROUPS:
                # a method may compute its zero as a product, which a processor may round
                assert (of_groups[prompt] * mask[prompt]).abs().max() <= ROUNDED

    def test_prompts_may_come_in_any_order(self) -> None:
        """The order of groups does not change advantages."""
        if not self.order_of_groups_matters:
            inputs, order_P = self.inputs(), torch.tensor([2, 0, 4, 3, 1])
            expected = self.advantages(inputs).reshape(PROMPTS, COMPLETIONS, -1)[order_P]
            reordered = self.advantages(_reordered(inputs, order_P))
            torch.testing.assert_close(reordered.reshape(expected.shape), expected)

    def update(self) -> Update:
        """A second update of six completions of 1 to 9 tokens; the first two have advantage 0."""
        generator = torch.Generator().manual_seed(3)

        def draw() -> Tensor:
            return torch.rand(ROWS, TOKENS, generator=generator)

        advantages_B1 = torch.tensor([[0.0], [0.0], [1.2], [-0.7], [0.4], [-0.9]])
        mask_BT = (torch.arange(TOKENS) < torch.tensor([[4], [9], [9], [1], [6], [3]])).long()
        logps_BT = -3 * draw()
        return Update(
            advantages_BT=advantages_B1.expand(ROWS, TOKENS),
            logps_BT=logps_BT.requires_grad_(),
            old_logps_BT=logps_BT.detach() + (draw() - 0.5) / 2,
            entropy_BT=3 * draw(),
            old_entropy_BT=3 * draw(),
            mask_BT=mask_BT,
            clip=(0.2, 0.28),
            step=3,
            seed=(7, 3, 0, 0),
        )

    def test_nothing_moves_the_policy_but_what_says_so(self) -> None:
        """Finite for each token (B, T), as the trainer checks; with a gradient it is a loss."""
        assert self.shaped(self.update()).requires_grad == self.carries_gradient

    def test_what_is_masked_is_not_read(self) -> None:
        """Padding has log-probabilities and entropies too."""
        update = self.update()
        mask_BT = update.mask_BT.bool()
        padded: dict[str, Any] = {
            name: torch.where(mask_BT, getattr(update, name), -0.123)
            for name in ("logps_BT", "old_logps_BT", "entropy_BT", "old_entropy_BT")
        }
        shaped = self.shaped(replace(update, **padded))
        torch.testing.assert_close(shaped[mask_BT], self.shaped(update)[mask_BT])

    def test_zero_stays_zero(self) -> None:
        """A group whose rewards are equal teaches nothing."""
        if self.zero_stays_zero:
            assert (self.shaped(self.update())[:2] == 0).all()

    def test_rows_may_be_divided_among_micro_batches(self) -> None:
        """The division into micro-batches does not change advantages, unless the method says so."""
        if not self.reads_the_micro_batch:
            update = self.update()
            halves = [self.shaped(_rows(update, half)) for half in (slice(0, 4), slice(4, ROWS))]
            torch.testing.assert_close(torch.cat(halves), self.shaped(update))

    def advantages(self, inputs: AdvantageInputs) -> Tensor:
        """Return them as the trainer does: checked, without gradient."""
        method = self.make()
        if not isinstance(method, OnlineMethod):
            return torch.zeros_like(inputs.rewards_PN).flatten()
        with torch.no_grad():
            advantages = checked(method.advantages(inputs), method.algo, inputs, by_row=True)
        return advantages.to(inputs.rewards_PN)

    def shaped(self, update: Update) -> Tensor:
        """Return what an update reads, as the trainer does: checked."""
        method = self.make()
        if not (isinstance(method, OnlineMethod) and method.shapes_tokens):
            return update.advantages_BT.clone()
        shaped = method.shape(update)
        advantages = shaped.advantages_BT if isinstance(shaped, Shaped) else shaped
        return checked(advantages, method.algo, update).to(update.advantages_BT)


def _reordered(inputs: AdvantageInputs, order_P: Tensor) -> AdvantageInputs:
    """Return the same groups, prompts in another order."""

    def rows(values_BT: Tensor) -> Tensor:
        return values_BT.reshape(PROMPTS, COMPLETIONS, TOKENS)[order_P].reshape(-1, TOKENS)

    def words(text_B: tuple[str, ...]) -> tuple[str, ...]:
        groups = [text_B[COMPLETIONS * p : COMPLETIONS * (p + 1)] for p in order_P.tolist()]
        return tuple(text for group in groups for text in group)

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
        beta=inputs.beta,
        read_reference=lambda: rows(inputs.reference_logps_BT),
        read_texts=lambda: Texts(words(inputs.texts_B), words(inputs.problem_ids_B)),
    )


def _rows(update: Update, rows: slice) -> Update:
    chosen = {name: value[rows] for name, value in vars(update).items() if name.endswith("_BT")}
    return replace(update, **chosen)
