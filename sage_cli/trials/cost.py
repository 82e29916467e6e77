"""What tasks cost at most: steps, completions and tokens."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from sage_cli.config.schema import SageConfig
from sage_cli.errors import DataError
from sage_cli.models.policy import checkpoint_steps
from sage_cli.problems.data_set import DataSet, Group
from sage_cli.problems.load import benchmark_names, is_here, load_problems
from sage_cli.problems.registry import find, is_file_name
from sage_cli.settings.data import DataSection
from sage_cli.trials.task import RL, SFT, Task


@dataclass(frozen=True)
class Cost:
    """The cost of one task or several; `unknown` names what cannot be counted and is left out.

    `completions` are sampled at least and `most` at most, which `tokens` counts.
    """

    steps: int = 0
    completions: int = 0
    most: int = 0
    tokens: int = 0
    unknown: tuple[str, ...] = ()

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.steps + other.steps,
            self.completions + other.completions,
            self.most + other.most,
            self.tokens + other.tokens,
            tuple(dict.fromkeys((*self.unknown, *other.unknown))),
        )

    def describe(self) -> str:
        """The cost in words; what is not counted at the end."""
        completions = f"{self.completions:,} completions"
        if self.most > self.completions:
            completions = f"at least {completions}, at most {self.most:,}"
        amounts = [f"{self.steps:,} steps", completions]
        amounts.append(f"{self.tokens:,} tokens at most")
        amounts += [f"not counted: {subject}" for subject in self.unknown]
        return "; ".join(amounts)


def cost(tasks: Iterable[Task]) -> Cost:
    """The cost of `tasks` from the beginning, whatever is stored of them."""
    return sum(map(cost_of, tasks), Cost())


def cost_of(task: Task) -> Cost:
    """The cost of a task; demonstrations are not counted, since their data would be read."""
    return training_cost(task) + measuring_cost(task)


def cost_left(tasks: Iterable[Task]) -> Cost:
    """The cost that is left of `tasks` that are not done; a finished training costs nothing."""
    return sum(map(_left, tasks), Cost())


def _left(task: Task) -> Cost:
    trained = task.run is not None and task.run.is_finished()
    return measuring_cost(task) if trained else cost_of(task)


def training_cost(task: Task) -> Cost:
    """The cost of the training that a task does."""
    config = task.config
    if task.kind == SFT:
        steps = config.sft.steps
        return Cost(steps=steps) if steps else Cost(unknown=("the steps of SFT",))
    if task.kind != RL:
        return Cost()
    sampled = config.rl.sampled
    tokens = sampled.most * config.rollout.max_tokens
    return Cost(config.rl.steps, sampled.least, sampled.most, tokens)


def measuring_cost(task: Task) -> Cost:
    """The cost of the measurement that a task does."""
    if not task.measures:
        return Cost()
    config = task.config
    evaluation = config.evaluation
    problems, unknown = _problems(config)
    problems *= _kept(task) if task.checkpoints else 1
    completions = problems * evaluation.samples * evaluation.seeds
    tokens = completions * config.sampling.max_tokens
    return Cost(0, completions, completions, tokens, unknown)


def _problems(config: SageConfig) -> tuple[int, tuple[str, ...]]:
    """Return the number of problems that are measured, and what is unknown of it."""
    evaluation = config.evaluation
    names = benchmark_names(evaluation.benchmark)
    counts = {name: problem_count(name, config.data) for name in names}
    problems = sum(
        min(count, evaluation.limit or count) for count in counts.values() if count is not None
    )
    unknown = tuple(f"the problems of {name}" for name, count in counts.items() if count is None)
    return problems, unknown


def problem_count(name: str, data: DataSection) -> int | None:
    """The number of a benchmark's problems; None if its data, which are not here, tell it."""
    entry = None if is_file_name(name) else find(name)
    if isinstance(entry, DataSet | Group) and entry.count is not None:
        return entry.count
    return _counted(name, data.model_dump_json())


@cache
def _counted(name: str, data_json: str) -> int | None:
    """The number of problems by reading them, without the Hub."""
    data = DataSection.model_validate_json(data_json)
    try:
        return len(load_problems(name, data)) if is_here(name, data) else None
    except DataError:
        return None


def _kept(task: Task) -> int:
    """The number of a run's policies, now or at its end: its checkpoints, and the last one."""
    rl, needs = task.config.rl, task.needs
    if needs is not None and needs.run is not None and needs.run.is_finished():
        return len(checkpoint_steps(needs.run)) + 1
    most = rl.steps // rl.save_every
    return 1 + (most if rl.keep_checkpoints is None else min(most, rl.keep_checkpoints))
