"""RLPR (Yu et al. 2025): the gold's probability in the answer's place pays, instead of the grade.

Completions are graded and recorded; grades pay nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sage_cli.errors import DataError, StoreError
from sage_cli.methods.hooks import (
    Generated,
    GradeReward,
    Hooks,
    Rollouts,
    Row,
    Setup,
    Trainer,
    logps_after,
    share_of,
)
from sage_cli.methods.loop import OtherSections
from sage_cli.methods.policy_gradient import PlainAdvantages
from sage_cli.solution_text import each_gold

if TYPE_CHECKING:
    from torch import Tensor

GOLD_SHARE, FORMAT_SHARE, REPEATED = 0.9, 0.1, -1.0
WINDOW_WORDS, WINDOW_TIMES = 10, 10
MEMORY, FIRST_AVERAGED_STEP, FIRST_FILTERED_STEP = 0.99, 6, 11
_AT_START = "golds_at_start"
"""What a checkpoint calls the golds' first probabilities, in the order of the prompts."""


class Rlpr(PlainAdvantages):
    """RLPR (Yu et al. 2025). The reward is the gold's mean probability, grades are logged."""

    algo: Literal["rlpr"] = "rlpr"
    epsilon_high: float = Field(0.27, gt=0)
    reward_filter: float = Field(0.5, ge=0)
    """Threshold for groups with similar rewards: from step 11 on, a group gives no learning signal
    if the standard deviation of its rewards is below this share of the running average. RLPR
    uses 0.5 for Qwen, 0.9 for Llama and 1.0 for Gemma; 0 keeps all groups."""

    source = (
        "Yu et al. 2025 (arXiv 2506.18254): the gold's probability in the answer's place as "
        "reward, groups of little deviation left out"
    )
    read_from = "code"
    differs = "groups that are left out stay in the batch with advantage 0"
    learns_without_reward = False
    kl_without_guide = "none"

    def hooks(self, setup: Setup) -> Hooks:
        """Return what pays for probabilities and leaves groups out."""
        return ProbabilityHooks(self, setup)

    def refusals(self, beside: OtherSections) -> list[str]:
        """Return the conflicts with prompts without an answer tag and with readers of grades."""
        refusals = [*super().refusals(beside), *self.ignores_rewards("the gold's probability")]
        if beside.prompt.answer != "tags":
            refusals.append(
                "rl.algo 'rlpr' puts the gold between the answer's tags, and prompt.answer is "
                f"'{beside.prompt.answer}' (use prompt.answer=tags)"
            )
        reading = {
            "rl.advantage 'beta'": self.advantage == "beta",
            "rl.dynamic_sampling": self.dynamic_sampling,
        }
        refusals += [
            f"{name} reads grades, but the reward of rl.algo 'rlpr' is a probability: completions "
            "would be chosen by something other than the reward (leave it out)"
            for name, reads in reading.items()
            if reads
        ]
        return refusals

    def describe(self) -> dict[str, Any]:
        """Return the reward."""
        return super().describe() | {"reward": "probability"}


def mean_probability(logps_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """The mean of the gold tokens' probabilities (B,): not their product, which one token rules."""
    return (logps_BT.exp() * mask_BT).sum(dim=1) / mask_BT.sum(dim=1)


def probability_reward(chance: float, at_start: float, *, formed: bool, repeats: bool) -> float:
    """0.9 clip(b - a, 0, 1) + 0.1 format, or -1 for a completion that repeats itself.

    b is the gold's mean probability in the answer's place, a the same right after the prompt,
    under the policy as it starts.
    """
    if repeats:
        return REPEATED
    gained = min(max(chance - at_start, 0.0), 1.0)
    return GOLD_SHARE * gained + FORMAT_SHARE * formed


def repeats_itself(text: str) -> bool:
    """Return True if some ten words in a row occur ten times."""
    words = text.split()
    windows = Counter(
        tuple(words[i : i + WINDOW_WORDS]) for i in range(len(words) - WINDOW_WORDS + 1)
    )
    return max(windows.values(), default=0) >= WINDOW_TIMES


def running_spread(deviations: Sequence[float]) -> float | None:
    """The average deviation that the next step's groups are held against; None before step 11.

    `deviations` are the steps' means over groups, from step 1. The average begins as the plain mean
    of steps 6 to 10; every later step enters it with a weight of 0.01.
    """
    if len(deviations) < FIRST_FILTERED_STEP - 1:
        return None
    average = fmean(deviations[FIRST_AVERAGED_STEP - 1 : FIRST_FILTERED_STEP - 1])
    for deviation in deviations[FIRST_FILTERED_STEP - 1 :]:
        average = MEMORY * average + (1 - MEMORY) * deviation
    return average


def telling_groups(spread_P: Tensor, average: float | None, factor: float) -> Tensor:
    """True (P,) for groups that teach: all without an average, then those not far below it."""
    import torch

    if average is None:
        return torch.ones_like(spread_P, dtype=torch.bool)
    return spread_P >= factor * average


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
                    f"problem {problem.id} has an empty reference answer, whose "
                    "probability rl.algo 'rlpr' would reward",
                    "leave such problems out of data.rl, or choose another method",
                )
        self.setup, self.filter_below = setup, filter_below
        self.deviations: list[float] = [record["reward/deviation"] for record in setup.records]
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
                    "start again with --fresh (this deletes the stored run)",
                )
            memory[_AT_START] = self._shared(range(len(self.setup.prompts)))
        chances: list[float] = memory[_AT_START]
        return chances

    def _shared(self, numbers: Sequence[int]) -> list[float]:
        """Return `_at_start` for these prompts; each process computes an equal share."""
        from accelerate.utils import gather_object

        mine = share_of(numbers, self.trainer.accelerator)
        chances = self._chances(
            [self.setup.prompts[number][0] + self.setup.answer_open for number in mine],
            [self.setup.prompts[number][1].gold for number in mine],
        )
        together: list[float] = gather_object(chances)
        return together[: len(numbers)]

    def __call__(self, *, completions: list[str], gold: list[str], **columns: Any) -> list[float]:
        """Rewards for TRL, which says the prompts and their numbers; grades are kept beside."""
        prompts, row, at_start = columns["prompts"], columns["row"], self._at_start()
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
        import torch

        device = self.trainer.accelerator.device
        table = torch.tensor([chances, formed, repeating], dtype=torch.float64, device=device).T
        means = self.trainer.accelerator.gather(table.contiguous()).mean(dim=0).tolist()
        names = ("reward/probability", "reward/formed", "reward/repeating")
        return dict(zip(names, means, strict=True))

    def _chances(self, contexts: Sequence[str], golds: Sequence[str]) -> list[float]:
        """The mean probability of each gold's tokens after its context, under the policy now.

        Of several golds it is the first's.

        At the rollouts' temperature. Every process asks for equally many.
        """
        import torch

        trainer, chances = self.trainer, list[float]()
        at_once = trainer.args.per_device_train_batch_size
        # contexts and golds are tokenised apart, as prompt and completion are when sampled
        before, after = (
            trainer.processing_class(list(texts), add_special_tokens=False)["input_ids"]
            for texts in (contexts, [each_gold(gold)[0] for gold in golds])
        )
        for first in range(0, len(golds), at_once):
            rows = slice(first, first + at_once)
            with torch.no_grad():
                logps_BT, mask_BT = logps_after(trainer, before[rows], after[rows])
            chances += mean_probability(logps_BT.double(), mask_BT).tolist()
        return chances


class ProbabilityHooks(Hooks):
    """Pays for probabilities, and leaves groups of little deviation out."""

    reward: ProbabilityReward

    def __init__(self, method: Rlpr, setup: Setup) -> None:
        super().__init__(method, setup)
        self.reward = ProbabilityReward(setup, method.reward_filter)

    def sample(self, trainer: Trainer, rows: list[Row]) -> tuple[list[Row], Generated | None]:
        """Pass the present policy to the reward, which scores what is sampled now by it."""
        self.reward.trainer = trainer
        return super().sample(trainer, rows)

    def advantages(self, trainer: Trainer, rollouts: Rollouts) -> Tensor:
        """Return the batch's advantages, 0 in the groups that RLPR leaves out."""
        from sage_cli.methods.formulas import broadcast_rows

        _ = trainer
        batch, right_PN = rollouts.batch, rollouts.right_PN
        keep_P = self.reward.keep(rollouts.total_B.reshape(right_PN.shape))
        keep_B = keep_P.repeat_interleave(right_PN.shape[1])[batch["row_ids_B"]]
        advantages = batch["advantages"]
        return advantages * broadcast_rows(keep_B, advantages)
