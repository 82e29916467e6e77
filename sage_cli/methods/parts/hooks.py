"""Hooks of a method within one training: its reward, and hooks that do nothing by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sage_cli.methods.parts.dynamic_sampling import DynamicSampling, Generated, Row

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor

    from sage_cli.methods.online import OnlineMethod

Batch = dict[str, Any]
"""A generation batch of this process, or some of its rows, as TRL's trainer keeps it."""


class HasStatus(Protocol):
    """The grade of one completion."""

    @property
    def status(self) -> str:
        """One of `sage_cli.grading.grades.STATUSES`."""
        ...

    @property
    def reward(self) -> float:
        """The share that is right: 1 or 0, unless a judge says a share."""
        ...


GradeCompletions = Callable[[Sequence[str], Sequence[str]], Sequence[HasStatus]]
"""(golds, completions) -> what is said of each pair."""


class GradeReward:
    """TRL's reward function around a grader.

    `completions` and `statuses` are the last batch's, in its order, `record` what else there is to
    say of it. Completions graded while groups are replaced are asked about again: a grader
    remembers.
    """

    __name__ = "grade"

    def __init__(self, grader: GradeCompletions) -> None:
        self.grader = grader
        self.completions: list[str] = []
        self.statuses: list[str] = []
        self.record: dict[str, float] = {}

    def grade(self, golds: Sequence[str], completions: Sequence[str]) -> list[str]:
        """The status of each completion."""
        return [grade.status for grade in self.grader(golds, completions)]

    def __call__(self, *, completions: list[str], gold: list[str], **_: Any) -> list[float]:
        """Rewards for TRL: 1.0 where the status is right, else 0.0, or the share that is right."""
        self.completions = completions
        grades = self.grader(gold, completions)
        self.statuses = [grade.status for grade in grades]
        return [grade.reward for grade in grades]


class Notes(Protocol):
    """What is noted of completions, for the run's ledger."""

    def replaced(self, rows: Sequence[Row], sampled: Generated, places: Sequence[int]) -> None:
        """Note the completions at `places`, which are not trained on."""
        ...


class HasGold(Protocol):
    """A problem, as far as a reward reads it."""

    @property
    def id(self) -> str:
        """The problem's id."""
        ...

    @property
    def gold(self) -> str:
        """Its right answer."""
        ...


@dataclass(frozen=True)
class Setup:
    """Inputs of a method before its training starts.

    `prompts` are prompt texts with their problems, `population` the same as rows of TRL's.
    `answer_begin` says where a completion's answer begins, None where it has none, `answer_open`
    what stands before an answer. `records` are those of the generation batches before. `initial`
    are texts and tokens that the initial policy sampled, by the prompt's number, for a method that
    has `samples_beforehand`.
    """

    grader: GradeCompletions
    prompts: Sequence[tuple[str, HasGold]]
    population: Dataset
    answer_open: str
    answer_begin: Callable[[str], int | None]
    records: Sequence[Mapping[str, Any]] = ()
    initial: Mapping[int, Sequence[tuple[str, Sequence[int]]]] = field(default_factory=dict)


class Trainer(Protocol):
    """The trainer, as far as methods use it; P prompts, N completions each, B rows, F rewards."""

    accelerator: Any
    args: Any
    model: Any
    num_generations: Any
    processing_class: Any
    state: Any
    rewards_BF: Tensor
    """What each reward function F says of the completions of all processes."""
    logps_BT: Tensor
    """The policy's log-probabilities of the micro-batch at hand, with their gradient."""
    reward_memory: dict[str, Any]
    """What a reward keeps from batch to batch; checkpoints hold it."""
    noted: Notes
    """What is noted of completions that are replaced."""
    buffered: list[Batch]
    """The micro-batches of the generation batch at hand."""

    def generate_rows(self, rows: Sequence[Row]) -> Generated:
        """Return completions for rows of the data set, in TRL's form."""
        ...

    def grade_rows(self, rows: Sequence[Row], sampled: Generated) -> Tensor:
        """Return (P, N): which completions of the whole generation batch are right."""
        ...

    def score_rows(self, rows: list[Row]) -> tuple[Batch, Tensor]:
        """Return a batch of further completions, scored, and (P, N): which are right."""
        ...

    def loss_of(self, model: Any, inputs: Batch) -> Tensor:
        """Return the loss of rows that are no more than a micro-batch."""
        ...

    def policy_signals(
        self, batch: Batch, *, batch_size: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (B, T) of a batch, without gradient."""
        ...

    def plain_logps(self, ids_BT: Tensor, mask_BT: Tensor, tokens: int) -> Tensor:
        """Return the policy's log-probabilities of the last `tokens` of any text."""
        ...


class Hooks:
    """Hears of each generation batch and each loss of one training.

    `record` is added to the record of the batch's steps.
    """

    def __init__(self, method: OnlineMethod, setup: Setup) -> None:
        self.setup = setup
        self.reward = GradeReward(setup.grader)
        self._dynamic = None
        if method.dynamic_sampling:
            extra = method.max_extra_generations
            self._dynamic = DynamicSampling(setup.population, extra, method.seed)

    @property
    def record(self) -> dict[str, Any]:
        """Return the records of the generation batch."""
        return {**(self._dynamic.record if self._dynamic else {}), **self.reward.record}

    def begin(self, trainer: Trainer) -> None:
        """Hear of the trainer, before anything is trained."""

    def sample(self, trainer: Trainer, rows: list[Row]) -> tuple[list[Row], Generated | None]:
        """Return rows and their completions; None where the trainer samples them as usual."""
        return self._dynamic.sample(trainer, rows) if self._dynamic else (rows, None)

    def advantages(self, trainer: Trainer, batch: Batch, right_PN: Tensor) -> Tensor:
        """Return this process's advantages after a look at the rewards or grades of all."""
        _ = trainer, right_PN
        found: Tensor = batch["advantages"]
        return found

    def pooled(self, trainer: Trainer, rows: list[Row], batch: Batch, right_PN: Tensor) -> Batch:
        """Return the batch with further rollouts."""
        _ = trainer, rows, right_PN
        return batch

    def loss(self, trainer: Trainer, model: Any, batch: Batch) -> Tensor:
        """Return the loss of a buffered micro-batch."""
        return trainer.loss_of(model, batch)

    def loss_term(self, trainer: Trainer, batch: Batch) -> Tensor | None:
        """Return what is added to the loss of a micro-batch, before gradient accumulation."""
        _ = trainer, batch
        return None

    def figures(self, trainer: Trainer) -> dict[str, float]:
        """Return what there is to say of the step that was just taken."""
        _ = trainer
        return {}
