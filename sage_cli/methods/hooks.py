"""Hooks of a method within one training: its reward, dynamic sampling, and neutral defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sage_cli.methods.rollout_batch import RolloutBatch

# with `Batch`, what methods of other packages import from here
from sage_cli.methods.rollout_batch import learned_tokens as learned_tokens
from sage_cli.methods.rollout_batch import rows_of as rows_of

if TYPE_CHECKING:
    from datasets import Dataset
    from torch import Tensor

Row = dict[str, Any]
Generated = tuple[Any, ...]
"""Completions in the form of TRL's `_generate`."""
Batch = RolloutBatch


class HasStatus(Protocol):
    """The grade of one completion."""

    @property
    def status(self) -> str:
        """One of `sage_cli.grading.grades.STATUSES`."""
        ...

    @property
    def reward(self) -> float:
        """The share that is correct: 1 or 0, unless a judge says a share."""
        ...

    @property
    def extracted(self) -> str | None:
        """The answer, None where there is none."""
        ...


GradeCompletions = Callable[[Sequence[str], Sequence[str]], Sequence[HasStatus]]
"""(golds, completions) -> what is said of each pair."""


class GradeReward:
    """TRL's reward function around a grader.

    TRL takes numbers alone, so `statuses` keeps those of the last batch, in its order, and `record`
    what else there is to say of it. Completions graded while groups are replaced are asked about
    again: a grader remembers.
    """

    __name__ = "grade"

    def __init__(self, grader: GradeCompletions) -> None:
        self.grader = grader
        self.statuses: list[str] = []
        self.record: dict[str, float] = {}

    def grade(self, golds: Sequence[str], completions: Sequence[str]) -> list[str]:
        """Return the status of each completion."""
        return [grade.status for grade in self.grader(golds, completions)]

    def __call__(self, *, completions: list[str], gold: list[str], **_: Any) -> list[float]:
        """Rewards for TRL: 1.0 for the status `right`, else 0.0, or the share that is correct."""
        grades = self.grader(gold, completions)
        self.statuses = [grade.status for grade in grades]
        return [grade.reward for grade in grades]


@dataclass
class Rollouts:
    """One generation as it comes about: this process's rows, with the rewards of all processes'.

    B rows of all processes, P prompts with N completions each, F reward functions.
    """

    rows: list[Row] = field(default_factory=list)
    generated: Generated | None = None
    """None until they are sampled."""
    completions: int = 0
    tokens: int = 0
    """What this process has sampled for the generation batch, discarded ones too."""
    texts: list[str] = field(default_factory=list)
    statuses: list[str] = field(default_factory=list)
    batch: RolloutBatch = field(init=False, repr=False)
    raw_BF: Tensor = field(init=False, repr=False)
    """What the reward functions say."""
    rewards_BF: Tensor = field(init=False, repr=False)
    """The weighted parts of what is maximised."""
    rated_B: Tensor = field(init=False, repr=False)
    """False for completions of which no reward says anything."""
    status_PN: Tensor = field(init=False, repr=False)
    """Indices of the grades."""
    right_PN: Tensor = field(init=False, repr=False)
    shares: dict[int, float] = field(default_factory=dict)
    """Share of correct ones among a prompt's first N, by the prompt's number."""

    @property
    def total_B(self) -> Tensor:  # noqa: N802 (a shape suffix)
        """What is maximised, of each row."""
        return self.rewards_BF.sum(dim=1)


class Recorder(Protocol):
    """Records completions in the run's ledger."""

    def record_replaced(
        self, step: int, rows: Sequence[Row], sampled: Generated, places: Sequence[int]
    ) -> None:
        """Record the completions at `places`, sampled for `step` and not trained on."""
        ...


class HasGold(Protocol):
    """A problem, as far as a reward reads it."""

    @property
    def id(self) -> str:
        """The problem's id."""
        ...

    @property
    def gold(self) -> str:
        """Its correct answer."""
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
    """The trainer, as far as methods use it; P prompts, N completions each, B rows."""

    accelerator: Any
    args: Any
    model: Any
    num_generations: Any
    processing_class: Any
    state: Any
    advantage_memory: dict[str, Any]
    reward_memory: dict[str, Any]
    """What advantages and a reward keep from batch to batch; checkpoints hold it."""
    recorder: Recorder
    """Records completions that are replaced."""
    buffered: list[RolloutBatch]
    """The micro-batches of the generation batch at hand."""

    def generate_rows(self, rows: Sequence[Row]) -> Generated:
        """Return completions for rows of the data set, in TRL's form."""
        ...

    def grade_rows(self, rows: Sequence[Row], sampled: Generated) -> Tensor:
        """Return (P, N): which completions of the whole generation batch are correct."""
        ...

    def score_rows(
        self, rows: list[Row], beforehand: Generated | None = None, first: Rollouts | None = None
    ) -> Rollouts:
        """Return completions of rows, scored; with `first` further ones of its prompts."""
        ...

    def policy_signals(
        self, batch: RolloutBatch, *, batch_size: int | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and entropies (B, T) of a batch, without gradient."""
        ...

    def plain_logps(self, ids_BT: Tensor, mask_BT: Tensor, tokens: int) -> Tensor:
        """Return the policy's log-probabilities of the last `tokens` of any text."""
        ...


class ReplacesGroups(Protocol):
    """A method, as far as dynamic sampling reads it."""

    @property
    def dynamic_sampling(self) -> bool:
        """Whether groups of equal grades are replaced."""
        ...

    @property
    def max_extra_generations(self) -> int:
        """The most generations beyond the first."""
        ...

    @property
    def seed(self) -> int:
        """The training seed."""
        ...


class DynamicSampling:
    """Replaces groups of equal grades, in at most `bound` generations beyond the first (DAPO).

    Such a group has no advantage. Grades decide, not shaped rewards: a group of wrong answers of
    different lengths is still replaced.

    Fresh prompts are chosen by a generator seeded by (seed, step, attempt), without those already
    tried in this step, so that a resumed run chooses the same. `record` says how many groups were
    discarded and how many extra generations the last step took.
    """

    def __init__(self, population: Dataset, bound: int, seed: int) -> None:
        self.population, self.bound, self.seed = population, bound, seed
        self.record: dict[str, int] = {}

    def sample(self, trainer: Trainer, rows: Sequence[Row]) -> tuple[list[Row], Generated]:
        """Return rows and their completions (in TRL's form) after replacement, for this process."""
        from accelerate.utils import gather_object

        rows, sampled = list(rows), trainer.generate_rows(rows)
        tried = set(gather_object([row["row"] for row in rows]))
        self.record = {"groups/discarded": 0, "groups/extra_generations": 0}
        for attempt in range(self.bound):
            stale = equal_groups(trainer.grade_rows(rows, sampled))
            fresh = self._fresh(len(stale), tried, trainer.state.global_step, attempt)
            if not fresh:
                break
            tried.update(fresh)
            replacement = dict(zip(stale, fresh, strict=False))
            rows, sampled = self._replace(trainer, rows, sampled, replacement)
            self.record["groups/discarded"] += len(replacement)
            self.record["groups/extra_generations"] += 1
        return rows, sampled

    def _fresh(self, count: int, tried: set[int], step: int, attempt: int) -> list[int]:
        """Return up to `count` prompts that weren't tried in this step."""
        import numpy as np

        left = np.setdiff1d(np.arange(len(self.population)), sorted(tried))
        generator = np.random.default_rng((self.seed, step, attempt))
        chosen: list[int] = generator.permutation(left)[:count].tolist()
        return chosen

    def _replace(
        self, trainer: Trainer, rows: list[Row], sampled: Generated, replacement: dict[int, int]
    ) -> tuple[list[Row], Generated]:
        """Generate for this process's rows of the replaced groups; group -> prompt.

        Every process generates the same number of rows, since generation is collective.
        """
        from accelerate.utils import gather_object

        first = trainer.accelerator.process_index * len(rows)
        groups = [(first + index) // trainer.num_generations for index in range(len(rows))]
        places = [index for index, group in enumerate(groups) if group in replacement]
        step = trainer.state.global_step + 1
        trainer.recorder.record_replaced(step, rows, sampled, places)
        count = max(gather_object([len(places)]))
        fresh = [self.population[replacement[groups[index]]] for index in places]
        padding = [self.population[next(iter(replacement.values()))]] * (count - len(places))
        new = trainer.generate_rows([*fresh, *padding])
        rows = list(rows)
        for number, row in zip(places, fresh, strict=True):
            rows[number] = row
        return rows, tuple(_merged(old, new[i], places) for i, old in enumerate(sampled))


def share_of(rows: Sequence[int], accelerator: Any) -> list[int]:
    """Return this process's share of `rows`, equally long in every process.

    The last ones are filled up with the last row: processes that share a model compute in step.
    Gathered in the processes' order, and cut to `len(rows)`, the shares are `rows` again.
    """
    share = -(-len(rows) // accelerator.num_processes)
    begin = accelerator.process_index * share
    return [rows[min(i, len(rows) - 1)] for i in range(begin, begin + share)]


def logps_after(
    trainer: Trainer, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> tuple[Tensor, Tensor]:
    """Return the policy's log-probabilities (B, T) of the tokens `after` others, and their mask."""
    import torch

    before_BT, before_mask_BT = _padded(before, "left")
    after_BT, mask_BT = _padded(after, "right")
    device = trainer.accelerator.device
    logps_BT = trainer.plain_logps(
        torch.cat([before_BT, after_BT], dim=1).to(device),
        torch.cat([before_mask_BT, mask_BT], dim=1).to(device),
        after_BT.shape[1],
    )
    return logps_BT, mask_BT.to(device)


def _padded(ids: Sequence[Sequence[int]], side: str) -> tuple[Tensor, Tensor]:
    """Return ids and mask (B, T)."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    rows = [torch.tensor(row) for row in ids]
    mask = [torch.ones_like(row) for row in rows]
    return pad_sequence(rows, True, 0, side), pad_sequence(mask, True, 0, side)


def equal_groups(right_PN: Tensor) -> list[int]:
    """Return the groups whose completions are all right or all not right."""
    share_P = right_PN.float().mean(dim=1)
    indices: list[int] = ((share_P == 0) | (share_P == 1)).nonzero().flatten().tolist()
    return indices


def _merged(old: Any, new: Any, places: list[int]) -> Any:
    """`old` with its values at `places` taken from `new`'s beginning; what isn't per row stays."""
    if not isinstance(old, list) or not old:
        return old
    merged = list(old)
    for index, value in zip(places, new, strict=False):
        merged[index] = value
    return merged


class Hooks:
    """What a method does within one training besides its formulas: five hooks and a loss term.

    In the order of a step: which rows are sampled, advantages after a look at all rewards, further
    rollouts, a micro-batch in parts, the loss term, figures for the record. `reward` grades.
    """

    def __init__(self, method: ReplacesGroups, setup: Setup) -> None:
        self.setup = setup
        self.reward = GradeReward(setup.grader)
        self._dynamic = None
        if method.dynamic_sampling:
            extra = method.max_extra_generations
            self._dynamic = DynamicSampling(setup.population, extra, method.seed)

    def sample(self, trainer: Trainer, rows: list[Row]) -> tuple[list[Row], Generated | None]:
        """Return rows and their completions; None where the trainer samples them as usual."""
        return self._dynamic.sample(trainer, rows) if self._dynamic else (rows, None)

    def advantages(self, trainer: Trainer, rollouts: Rollouts) -> Tensor:
        """Return this process's advantages after a look at the rewards or grades of all."""
        _ = trainer
        return rollouts.batch["advantages"]

    def extend(self, trainer: Trainer, rollouts: Rollouts) -> RolloutBatch:
        """Return the batch that is trained on, with further rollouts."""
        _ = trainer
        return rollouts.batch

    def parts(self, trainer: Trainer, batch: RolloutBatch) -> list[tuple[float, RolloutBatch]]:
        """Return a buffered micro-batch in parts that are computed in turn, with their weights."""
        _ = trainer
        return [(1.0, batch)]

    def loss_term(self, trainer: Trainer, batch: RolloutBatch, logps_BT: Tensor) -> Tensor | None:
        """Return what is added to the loss of a micro-batch, before gradient accumulation.

        `logps_BT` are the policy's log-probabilities of the completions, with their gradient.
        """
        _ = trainer, batch, logps_BT
        return None

    def figures(self, trainer: Trainer) -> dict[str, Any]:
        """Return what there is to say of the step that was just taken and of its batch."""
        _ = trainer
        return {**(self._dynamic.record if self._dynamic else {}), **self.reward.record}
