"""RLPR's reward through the trainer: completions are graded and recorded; grades pay nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sage_cli.errors import DataError, StoreError
from sage_cli.methods.parts.hooks import Batch, GradeReward, Hooks, Setup, Trainer
from sage_cli.methods.rlpr.formula import (
    mean_probability,
    probability_reward,
    repeats_itself,
    running_spread,
    telling_groups,
)

if TYPE_CHECKING:
    from sage_cli.methods.rlpr import Rlpr

_AT_START = "golds_at_start"
"""What a checkpoint calls the golds' first probabilities, in the order of the prompts."""


class ProbabilityReward(GradeReward):
    """TRL's reward function that pays for the gold's probability in the answer's place.

    A completion without an answer between the tags has the probability 0. `deviations` are the
    groups' mean deviations of rewards, of each generation batch so far: RLPR's steps.
    """

    __name__ = "probability"

    def __init__(self, setup: Setup, filter_below: float) -> None:
        super().__init__(setup.grader)
        for _, problem in setup.prompts:
            if not problem.gold.strip():
                raise DataError(
                    f"problem {problem.id} has an empty gold, whose probability rl.algo 'rlpr' "
                    "would pay for",
                    "leave such problems out of data.rl, or choose another method",
                )
        self.setup, self.filter_below = setup, filter_below
        self.deviations: list[float] = [one["reward/deviation"] for one in setup.records]
        self.trainer: Trainer

    def _at_start(self) -> list[float]:
        """Each gold's probability right after its prompt, before anything was trained.

        Computed with the first batch, when the model has its place and its precision, and kept in
        the checkpoints from then on.
        """
        memory = self.trainer.reward_memory
        if _AT_START not in memory:
            if step := self.trainer.state.global_step:
                raise StoreError(
                    f"the checkpoint of step {step} has no probabilities of the golds at the "
                    "start, which rl.algo 'rlpr' compares with: an earlier release wrote it",
                    "type the command with --fresh",
                )
            memory[_AT_START] = self._shared(range(len(self.setup.prompts)))
        found: list[float] = memory[_AT_START]
        return found

    def _shared(self, numbers: Sequence[int]) -> list[float]:
        """Return `_at_start` for these prompts; each process computes an equal share."""
        state = self.trainer.accelerator
        share = -(-len(numbers) // state.num_processes)
        begin = state.process_index * share
        # the last share is filled up, because processes that share a model compute in step
        mine = [numbers[min(i, len(numbers) - 1)] for i in range(begin, begin + share)]
        chances = self._chances(
            [self.setup.prompts[number][0] + self.setup.answer_open for number in mine],
            [self.setup.prompts[number][1].gold for number in mine],
        )
        together: list[float] = gather_object(chances)
        return together[: len(numbers)]

    def __call__(self, *, completions: list[str], gold: list[str], **known: Any) -> list[float]:
        """Rewards for TRL, which says the prompts and their numbers; grades are kept beside."""
        prompts, row, at_start = known["prompts"], known["row"], self._at_start()
        super().__call__(completions=completions, gold=gold)
        begins = [self.setup.answer_begin(text) for text in completions]
        chances = self._chances(
            [
                prompt + (self.setup.answer_open if begin is None else text[:begin])
                for prompt, text, begin in zip(prompts, completions, begins, strict=True)
            ],
            gold,
        )
        chances = [
            0.0 if begin is None else chance for chance, begin in zip(chances, begins, strict=True)
        ]
        formed = [begin is not None for begin in begins]
        repeating = [repeats_itself(text) for text in completions]
        rows = zip(chances, row, formed, repeating, strict=True)
        self.record = self._means(chances, formed, repeating)
        return [
            probability_reward(b, at_start[number], formed=well, repeats=again)
            for b, number, well, again in rows
        ]

    def keep(self, rewards_PN: Tensor) -> Tensor:
        """True (P,) for the groups of all processes that teach in the next generation batch."""
        spread_P = rewards_PN.std(dim=1)
        average = running_spread(self.deviations)
        keep_P = telling_groups(spread_P, average, self.filter_below)
        self.deviations.append(spread_P.double().mean().item())
        self.record["reward/deviation"] = self.deviations[-1]
        if average is not None:
            self.record["reward/spread"] = average
        self.record["groups/filtered"] = int((~keep_P).sum())
        self.record["reward/paid"] = rewards_PN.mean().item()
        return keep_P

    def _means(
        self, chances: list[float], formed: list[bool], repeating: list[bool]
    ) -> dict[str, float]:
        device = self.trainer.accelerator.device
        table = torch.tensor([chances, formed, repeating], dtype=torch.float64, device=device).T
        means = self.trainer.accelerator.gather(table.contiguous()).mean(dim=0).tolist()
        names = ("reward/probability", "reward/formed", "reward/repeating")
        return dict(zip(names, means, strict=True))

    @torch.no_grad()
    def _chances(self, contexts: Sequence[str], golds: Sequence[str]) -> list[float]:
        """The mean probability of each gold's tokens after its context, under the policy now.

        At the rollouts' temperature. Every process asks for equally many.
        """
        trainer, found = self.trainer, []
        at_once = trainer.args.per_device_train_batch_size
        device = trainer.accelerator.device
        for first in range(0, len(golds), at_once):
            chosen = slice(first, first + at_once)
            before, before_mask = _padded(trainer, contexts[chosen], left=True)
            gold, gold_mask = _padded(trainer, golds[chosen], left=False)
            logps_BT = trainer.plain_logps(
                torch.cat([before, gold], dim=1).to(device),
                torch.cat([before_mask, gold_mask], dim=1).to(device),
                gold.shape[1],
            )
            found += mean_probability(logps_BT.double(), gold_mask.to(device)).tolist()
        return found


class ProbabilityHooks(Hooks):
    """Pays for probabilities, and leaves groups of little deviation out."""

    reward: ProbabilityReward

    def __init__(self, method: Rlpr, setup: Setup) -> None:
        super().__init__(method, setup)
        self.reward = ProbabilityReward(setup, method.reward_filter)

    def begin(self, trainer: Trainer) -> None:
        """Take the policy from this trainer, by the time of the first batch as it is trained."""
        self.reward.trainer = trainer

    def advantages(self, trainer: Trainer, batch: Batch, right_PN: Tensor) -> Tensor:
        """Return the batch's advantages, 0 in the groups that RLPR leaves out."""
        keep_P = self.reward.keep(trainer.rewards_BF.sum(dim=1).reshape(right_PN.shape))
        keep_B = keep_P.repeat_interleave(right_PN.shape[1])[batch["row_ids_B"]]
        advantages: Tensor = batch["advantages"]
        return advantages * keep_B.reshape(-1, *[1] * (advantages.dim() - 1))


def _padded(trainer: Trainer, texts: Sequence[str], *, left: bool) -> tuple[Tensor, Tensor]:
    """Ids and mask (B, T) of texts, each tokenised by itself."""
    tokenizer = trainer.processing_class
    rows = [
        torch.tensor(ids) for ids in tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    ]
    mask = [torch.ones_like(ids) for ids in rows]
    side = "left" if left else "right"
    return (
        pad_sequence(rows, True, tokenizer.pad_token_id, padding_side=side),
        pad_sequence(mask, True, 0, padding_side=side),
    )
