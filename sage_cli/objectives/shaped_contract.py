"""What an advantage that is shaped in every update owes the trainer, as a test class to inherit.

    class TestMine(ShapedAdvantageContract):
        def make(self) -> ShapeFunction:
            return functools.partial(my_shape, scale=0.5)

What it is shaped out of has `AdvantageContract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sage_cli.objectives.advantage import Advantage, AdvantageInputs, ShapeFunction, Update

ROWS, TOKENS = 6, 9


class ShapedAdvantageContract(ABC):
    """Shape kept, finite, deterministic for a seed, blind to what is masked.

    A class whose advantage depends on which rows share a micro-batch says so by
    `reads_the_micro_batch = True`; one that isn't 0 where the group's advantage is, by
    `zero_stays_zero = False`; one that carries a gradient, by `carries_gradient = True`.
    """

    reads_the_micro_batch = False
    zero_stays_zero = True
    carries_gradient = False

    @abstractmethod
    def make(self) -> ShapeFunction:
        """The shape under test."""

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

    def test_one_finite_advantage_for_each_token(self) -> None:
        """(B, T), and neither NaN nor infinity: the trainer refuses anything else."""
        update = self.update()
        assert self.shaped(update).shape == update.mask_BT.shape

    def test_nothing_moves_the_policy_but_what_says_so(self) -> None:
        """An advantage weighs the gradient; one with a gradient is a loss of its own."""
        assert self.shaped(self.update()).requires_grad == self.carries_gradient

    def test_the_micro_batch_stays_as_it_is(self) -> None:
        """Later updates read it again."""
        update, untouched = self.update(), self.update()
        self.shaped(update)
        for name in ("advantages_BT", "logps_BT", "old_logps_BT", "entropy_BT", "mask_BT"):
            assert torch.equal(getattr(update, name), getattr(untouched, name)), name

    def test_deterministic(self) -> None:
        """The same seed gives the same, and the global generator is neither read nor moved."""
        torch.manual_seed(0)
        before = torch.get_rng_state()
        first = self.shaped(self.update())
        assert torch.equal(before, torch.get_rng_state())
        torch.manual_seed(1)
        assert torch.equal(first, self.shaped(self.update()))

    def test_what_is_masked_is_not_read(self) -> None:
        """Padding has log-probabilities and entropies too."""
        update = self.update()
        mask_BT = update.mask_BT.bool()
        other: dict[str, Any] = {
            name: torch.where(mask_BT, getattr(update, name), -0.123)
            for name in ("logps_BT", "old_logps_BT", "entropy_BT", "old_entropy_BT")
        }
        found = self.shaped(replace(update, **other))
        torch.testing.assert_close(found[mask_BT], self.shaped(update)[mask_BT])

    def test_zero_stays_zero(self) -> None:
        """A group whose rewards are equal teaches nothing."""
        if self.zero_stays_zero:
            assert (self.shaped(self.update())[:2] == 0).all()

    def test_rows_may_be_divided_among_micro_batches(self) -> None:
        """Which rows go through the model together decides nothing, unless it says so."""
        if not self.reads_the_micro_batch:
            update = self.update()
            halves = [self.shaped(_rows(update, half)) for half in (slice(0, 4), slice(4, ROWS))]
            torch.testing.assert_close(torch.cat(halves), self.shaped(update))

    def shaped(self, update: Update) -> Tensor:
        """As the trainer gets it: checked."""
        return Advantage(type(self).__name__, _unused, self.make()).shaped(update)


def _unused(inputs: AdvantageInputs) -> Tensor:
    return inputs.rewards_PN.flatten()


def _rows(update: Update, rows: slice) -> Update:
    chosen = {name: value[rows] for name, value in vars(update).items() if name.endswith("_BT")}
    return replace(update, **chosen)
