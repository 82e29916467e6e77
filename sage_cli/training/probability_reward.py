"""RLPR's reward through the trainer: verdicts are graded and kept as ever, and pay nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from trl import GRPOTrainer

from sage_cli.errors import DataError, StoreError
from sage_cli.grading.extract import AnswerTags, answer_begin
from sage_cli.objectives.probability_reward import (
    mean_probability,
    probability_reward,
    repeats_itself,
    running_spread,
    telling_groups,
)
from sage_cli.problems.problem import Problem
from sage_cli.training.verdicts import GradeCompletions, VerdictReward

_AT_START = "golds_at_start"
"""What a checkpoint calls the golds' first probabilities, in the order of the prompts."""


class ProbabilityReward(VerdictReward):
    """TRL's reward function that pays for the gold's probability in the answer's place.

    A completion without an answer between the tags has the probability 0. `deviations` are the
    groups' mean deviations of rewards, of each generation batch so far: RLPR's steps. `earlier` are
    the records of the batches before.
    """

    __name__ = "probability"

    def __init__(
        self,
        grader: GradeCompletions,
        prompts: Sequence[tuple[str, Problem]],
        tags: AnswerTags,
        filter_below: float,
        earlier: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        super().__init__(grader)
        for _, problem in prompts:
            if not problem.gold.strip():
                raise DataError(
                    f"problem {problem.id} has an empty gold, whose probability rl.reward "
                    "'probability' would pay for",
                    "leave such problems out of data.rl, or use rl.reward=verdict",
                )
        self.prompts, self.tags, self.filter_below = prompts, tags, filter_below
        self.deviations: list[float] = [one["reward/deviation"] for one in earlier]
        self._trainer: Any = None

    def read_through(self, trainer: Any) -> None:
        """Take the policy from this trainer, by the time of the first batch as it is trained."""
        self._trainer = trainer

    def _at_start(self) -> list[float]:
        """Each gold's probability right after its prompt, before anything was trained.

        Computed with the first batch, when the model has its place and its precision, and kept in
        the checkpoints from then on.
        """
        memory = self._trainer.reward_memory
        if _AT_START not in memory:
            if step := self._trainer.state.global_step:
                raise StoreError(
                    f"the checkpoint of step {step} has no probabilities of the golds at the "
                    "start, which rl.reward 'probability' compares with: an earlier release "
                    "wrote it",
                    "type the command with --fresh",
                )
            memory[_AT_START] = self._shared(range(len(self.prompts)))
        found: list[float] = memory[_AT_START]
        return found

    def _shared(self, numbers: Sequence[int]) -> list[float]:
        """What `_at_start` says of these prompts; each process computes an equal share of them."""
        state = self._trainer.accelerator
        share = -(-len(numbers) // state.num_processes)
        begin = state.process_index * share
        # the last share is filled up, because processes that share a model compute in step
        mine = [numbers[min(i, len(numbers) - 1)] for i in range(begin, begin + share)]
        chances = self._chances(
            [self.prompts[number][0] + self.tags.open for number in mine],
            [self.prompts[number][1].gold for number in mine],
        )
        together: list[float] = gather_object(chances)
        return together[: len(numbers)]

    def __call__(self, *, completions: list[str], gold: list[str], **known: Any) -> list[float]:
        """Rewards for TRL, which says the prompts and their numbers; verdicts are kept beside."""
        prompts, row, at_start = known["prompts"], known["row"], self._at_start()
        super().__call__(completions=completions, gold=gold)
        begins = [answer_begin(text, self.tags) for text in completions]
        chances = self._chances(
            [
                prompt + (self.tags.open if begin is None else text[:begin])
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

    def filtered(self, trainer: Any, batch: dict[str, Any]) -> Tensor:
        """The batch's advantages, 0 in the groups that RLPR leaves out."""
        group = int(trainer.num_generations)
        rewards_PN = trainer.rewards_BF.sum(dim=1).reshape(-1, group)
        keep_P = self.keep(rewards_PN)
        keep_B = keep_P.repeat_interleave(group)[batch["row_ids_B"]]
        advantages: Tensor = batch["advantages"]
        return advantages * keep_B.reshape(-1, *[1] * (advantages.dim() - 1))

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
        device = self._trainer.accelerator.device
        table = torch.tensor([chances, formed, repeating], dtype=torch.float64, device=device).T
        means = self._trainer.accelerator.gather(table.contiguous()).mean(dim=0).tolist()
        names = ("reward/probability", "reward/formed", "reward/repeating")
        return dict(zip(names, means, strict=True))

    @torch.no_grad()
    def _chances(self, contexts: Sequence[str], golds: Sequence[str]) -> list[float]:
        """The mean probability of each gold's tokens after its context, under the policy now.

        At the rollouts' temperature. Every process asks for equally many.
        """
        trainer, found = self._trainer, []
        at_once = trainer.args.per_device_train_batch_size
        device = trainer.accelerator.device
        for first in range(0, len(golds), at_once):
            chosen = slice(first, first + at_once)
            before, before_mask = _padded(trainer, contexts[chosen], left=True)
            gold, gold_mask = _padded(trainer, golds[chosen], left=False)
            # past AnchoredTrainer's own, which is listening to what the reference says
            logps_BT = GRPOTrainer._get_per_token_logps_and_entropies(
                trainer,
                trainer.model,
                torch.cat([before, gold], dim=1).to(device),
                torch.cat([before_mask, gold_mask], dim=1).to(device),
                gold.shape[1],
            )[0]
            found += mean_probability(logps_BT.double(), gold_mask.to(device)).tolist()
        return found


def _padded(trainer: Any, texts: Sequence[str], *, left: bool) -> tuple[Tensor, Tensor]:
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
