"""What tasks cost at most: steps, completions, tokens; GPU hours where a throughput is stated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from sage_cli.config.data import DataSection
from sage_cli.config.schema import SageConfig
from sage_cli.config.training import batch_of
from sage_cli.errors import DataError
from sage_cli.planning.hours import gpu_hours
from sage_cli.policies.names import checkpoint_steps
from sage_cli.problems.data_set import DataSet, Group
from sage_cli.problems.load import benchmark_names, load_problems
from sage_cli.problems.registry import find, is_file_name, members
from sage_cli.problems.sources import local_files
from sage_cli.suite.tasks import CHECKPOINTS, RL, SFT, SuiteTask


@dataclass(frozen=True)
class Cost:
    """Of one task or several; `unknown` names what couldn't be counted and is left out."""

    steps: int = 0
    completions: int = 0
    tokens: int = 0
    gpu_hours: float = 0.0
    unknown: tuple[str, ...] = ()

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.steps + other.steps,
            self.completions + other.completions,
            self.tokens + other.tokens,
            self.gpu_hours + other.gpu_hours,
            tuple(dict.fromkeys((*self.unknown, *other.unknown))),
        )


def cost(tasks: Iterable[SuiteTask]) -> Cost:
    """What `tasks` cost from the beginning, whatever is stored of them."""
    return sum(map(cost_of, tasks), Cost())


def cost_of(task: SuiteTask) -> Cost:
    """Of one task; a base's demonstrations aren't counted, for which their data would be read."""
    return _training(task) + _measuring(task)


def cost_left(tasks: Iterable[SuiteTask]) -> Cost:
    """What `tasks`, which aren't done, still cost: a finished training nothing, another all."""
    return sum(map(_left, tasks), Cost())


def _left(task: SuiteTask) -> Cost:
    trained = task.run is not None and task.run.finished
    return _measuring(task) if trained else cost_of(task)


def _training(task: SuiteTask) -> Cost:
    config = task.config
    if task.kind == SFT:
        steps = config.sft.steps
        return Cost(steps=steps) if steps else Cost(unknown=("the steps of supervised warm-up",))
    if task.kind != RL:
        return Cost()
    completions = config.rl.steps * batch_of(config.rl, config.rl.processes).completions
    tokens = completions * config.rollout.max_tokens
    hours = gpu_hours(config.model, sampled=tokens, trained=tokens)
    return Cost(config.rl.steps, completions, tokens, hours)


def _measuring(task: SuiteTask) -> Cost:
    if not task.measures:
        return Cost()
    return _measurement(task.config, _kept(task) if task.kind == CHECKPOINTS else 1)


def _measurement(config: SageConfig, policies: int) -> Cost:
    evaluation = config.evaluation
    names = benchmark_names(evaluation.benchmark)
    counts = {name: problem_count(name, config.data) for name in names}
    problems = sum(
        min(count, evaluation.limit or count) for count in counts.values() if count is not None
    )
    completions = policies * problems * evaluation.samples * evaluation.seeds
    tokens = completions * config.sampling.max_tokens
    unknown = tuple(f"the problems of {name}" for name, count in counts.items() if count is None)
    return Cost(0, completions, tokens, gpu_hours(config.model, sampled=tokens), unknown)


def problem_count(name: str, data: DataSection) -> int | None:
    """How many problems a benchmark has; None where only data tell that aren't here."""
    entry = None if is_file_name(name) else find(name)
    if isinstance(entry, DataSet | Group) and entry.count is not None:
        return entry.count
    return _counted(name, data.model_dump_json())


@cache
def _counted(name: str, data_json: str) -> int | None:
    """The same by reading, the Hub left alone."""
    data = DataSection.model_validate_json(data_json)
    try:
        here = all(not isinstance(one, DataSet) or local_files(one, data) for one in members(name))
        return len(load_problems(name, data)) if here else None
    except DataError:
        return None


def _kept(task: SuiteTask) -> int:
    """How many policies a run has come to or will: its checkpoints, and the last one."""
    rl, needs = task.config.rl, task.needs
    if needs is not None and needs.run is not None and needs.run.finished:
        return len(checkpoint_steps(needs.run)) + 1
    most = rl.steps // rl.save_every
    return 1 + (most if rl.keep_checkpoints is None else min(most, rl.keep_checkpoints))
