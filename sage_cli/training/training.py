"""What a training takes: configuration, policy, and problems, chosen by pass rate, in their order.

Pass rates are those of a training's ledger or of stored samples. At the end is what hears each
step's record: display, mirrors, and safeguards that stop a hopeless training. No library is loaded.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, DivergedError, StoreError
from sage_cli.evaluation.benchmarks import gradable_problems, grader_for
from sage_cli.grading.grades import STATUSES
from sage_cli.methods.method import Method
from sage_cli.models.policy import Policy, named_policy
from sage_cli.problems.load import load_training_problems
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import trained_on
from sage_cli.progress import Progress
from sage_cli.sampling.sampler import DISTRIBUTION
from sage_cli.settings.runs import TrackingSection
from sage_cli.store.files import key_of
from sage_cli.store.mirrors import Follower, mirrors_of
from sage_cli.store.run import Run, Runs
from sage_cli.training.checkpoints import saved_step

if TYPE_CHECKING:
    from sage_cli.training.validation import Validation


Ids = list[int]


@dataclass(frozen=True)
class Validator:
    """Measures the policy every `interval` steps and after the last; one process does, all wait.

    `validate` maps the model as it stands to figures for the step's record.
    """

    interval: int
    validate: Callable[[Any], Mapping[str, float]]


SampleRollouts = Callable[[Any, Sequence[Ids], str, int], list[Ids]]
"""(model, prompts' ids, batch, sampled) -> a completion's ids for each prompt, in order.

`batch` names the generation batch and the process, `sampled` says how many completions this process
has sampled for it before: both with the training's seed decide what is sampled."""


@dataclass(frozen=True)
class Training:
    """What RL trains from: the configuration, the policy as it starts, and the problems.

    `validation` measures the policy in training.
    """

    config: SageConfig
    start: Policy
    problems: Sequence[Problem]
    validation: Validation | None


def training_order(population: int, rl: Method) -> list[int]:
    """Return the order of prompts in the whole training: each pass has a permutation of its own."""
    # one long epoch: a sampler that shuffles again each epoch forgets on resume which epoch it is
    # in
    generations = -(-rl.steps // rl.steps_per_batch)
    count = generations * rl.prompts_per_batch
    return permutations(population, count, rl.seed)


def rows_seen(population: int, rl: Method) -> list[int]:
    """Return the prompts that a training comes to; all where some may be replaced."""
    if rl.replaces_prompts:
        return list(range(population))
    return sorted(set(training_order(population, rl)))


def permutations(population: int, count: int, seed: int) -> list[int]:
    """Return the first `count` of permutations of `population`, one after the other."""
    from numpy.random import default_rng  # which a plan does without

    order: list[int] = []
    for epoch in range(-(-count // population) if count else 0):
        order += default_rng((seed, epoch)).permutation(population).tolist()
    return order[:count]


@dataclass(frozen=True)
class PassRates:
    """The right and all graded completions of problems, by id; `source` says whose they are."""

    right: Mapping[str, int]
    n: Mapping[str, int]
    source: str

    def rate(self, problem: Problem) -> float:
        """Return the pass rate of a problem that has one."""
        return self.right[problem.id] / self.n[problem.id]

    def among(self, problems: Sequence[Problem]) -> list[Problem]:
        """Return the problems that have a pass rate."""
        return [problem for problem in problems if self.n.get(problem.id)]


def stored_rates(config: SageConfig, root: Path, problems: Sequence[Problem]) -> PassRates:
    """Return the pass rates that the model `data.rl.solved_by` has on some of the problems.

    Raises StoreError if it has none.
    """
    name, runs = str(config.data.rl.solved_by), Runs(root)
    policy = named_policy(name, runs, config.model)
    rates = None
    if policy.run is not None and policy.checkpoint is None:
        rates = _ledger_rates(policy.run)
    if rates is None:
        rates = _sample_rates(policy, config, root, problems)
    if rates.among(problems):
        return rates
    rollout, source = config.rollout, config.data.rl.name
    sets = " ".join(f"--set sampling.{key}={getattr(rollout, key):g}" for key in DISTRIBUTION)
    raise StoreError(
        f"{rates.source} holds no graded completion of a problem of {source} "
        f"(data.rl.solved_by is {name})",
        "name a run of RL on these problems, whose ledger counts, or sample a model as rollouts "
        f"are: `sage passk {name} --benchmark {trained_on(source)} {sets}`",
    )


def _ledger_rates(run: Run) -> PassRates | None:
    """Return the pass rates of all completions of a training; None if it has no ledger."""
    rows = run.ledger.read()
    if not len(rows):
        return None
    right, n = Counter[str](), Counter[str]()
    for problem, right_n, all_n in zip(
        *(rows[name].to_pylist() for name in ("problem", "right", "n")), strict=True
    ):
        right[problem] += right_n
        n[problem] += all_n
    return PassRates(right, n, f"the ledger of {run.id}")


def _sample_rates(
    policy: Policy, config: SageConfig, root: Path, problems: Sequence[Problem]
) -> PassRates:
    """Return the pass rates of all seeds' samples that were sampled as rollouts are."""
    from sage_cli.evaluation.samples import PolicySamples
    from sage_cli.store.annotations import GradeStore
    from sage_cli.store.sample_set import SampleSet, stored_seeds

    ids, right, n = [problem.id for problem in problems], Counter[str](), Counter[str]()
    identity = PolicySamples.for_rollouts(policy, config, root).at(0, read_only=True).identity
    with grader_for(config.data.rl.name, config.grading, config.prompt) as grader:
        for of_seed in stored_seeds(root, identity):
            stored = SampleSet(root, of_seed, read_only=True)
            most = int(stored.inventory().index_S.max(initial=-1)) + 1
            tally = GradeStore(stored, grader.identity.mapping()).tally(ids, most)
            right.update(dict(zip(ids, tally.right_P.tolist(), strict=True)))
            n.update(dict(zip(ids, tally.n_P.tolist(), strict=True)))
    return PassRates(right, n, f"what is stored of {policy.label}")


def training_problems(config: SageConfig, root: Path) -> list[Problem]:
    """Return the problems that a training takes, in their source's order.

    Warns of rows that are left out because no answer can be compared with their gold. Raises
    DataError where these are many, ConfigurationError if no problem is left, and StoreError without
    stored pass rates of them.
    """
    problems = gradable_problems(config, load_training_problems(config.data))
    source = config.data.rl
    if source.solved_by is None:
        return problems

    rates = stored_rates(config, root, problems)
    rated = rates.among(problems)
    low, high = source.solved_range
    chosen = [problem for problem in rated if low <= rates.rate(problem) <= high]
    if not chosen:
        values = [rates.rate(problem) for problem in rated]
        raise ConfigurationError(
            f"no problem of {source.name} has a pass rate in {source.solved}: {rates.source} has "
            f"{min(values):.3g} to {max(values):.3g} on {len(rated):,}",
            "widen data.rl.solved",
        )
    return chosen


def pool_identity(config: SageConfig, root: Path) -> dict[str, Any] | None:
    """Return what decides the choice, pass rates by content; None without a pool."""
    source = config.data.rl
    if source.solved_by is None:
        return None

    problems = load_training_problems(config.data)
    rates = stored_rates(config, root, problems)
    counted = sorted(
        (problem.id, rates.right[problem.id], rates.n[problem.id])
        for problem in rates.among(problems)
    )
    return {"solved": list(source.solved_range), "rates": key_of({"counted": counted})}


def pool_facts(config: SageConfig, root: Path) -> dict[str, str]:
    """Describe for a dry run how many problems are left; empty without a pool."""
    source = config.data.rl
    if source.solved_by is None:
        return {}

    problems = load_training_problems(config.data)
    rates, left = stored_rates(config, root, problems), training_problems(config, root)
    rated = rates.among(problems)
    mean_n = sum(rates.n[problem.id] for problem in rated) / len(rated)
    unrated = len(problems) - len(rated)
    return {
        "problems": f"{source.name}, {len(left):,} of {len(problems):,}: pass rate "
        f"{source.solved}, by {rates.source}, {mean_n:.3g} completions each"
        + (f"; {unrated:,} have none" if unrated else "")
    }


STUCK_SHARE = 0.95
STOP_AFTER_STEPS = 20

UNREADABLE = "grade/unparseable"

_WATCHED_SHARES = {
    "completions/clipped": (
        "completions were cut off at the length limit",
        "raise rollout.max_tokens, or check that the initial policy ends its answers",
    ),
    "groups/zero_variance": (
        "groups had equal rewards, so they gave no learning signal",
        "use easier or harder problems, or more rollouts per prompt (rl.rollouts_per_prompt)",
    ),
    UNREADABLE: (
        "completions had no readable answer",
        "see `sage samples show RUN --training`, and compare the texts with prompt.format",
    ),
}


def _unreadable_share(record: Mapping[str, Any]) -> float:
    """Return the share of a step's completions whose answer can't be read."""
    graded = sum(record.get(f"grade/{status}", 0) for status in STATUSES)
    return float(record.get(UNREADABLE, 0) / graded) if graded else 0.0


class Safeguards:
    """Watches the records of one training.

    A warning at the first of some steps in a row with at least 95% clipped or unreadable
    completions or groups of equal rewards, since a step may take minutes; a stop after 20 of them.
    A stop at once when loss or gradient norm isn't finite. With `stop=False` only warnings.
    """

    def __init__(self, *, stop: bool) -> None:
        self.stop = stop
        self._stuck_steps = dict.fromkeys(_WATCHED_SHARES, 0)

    def count(self, record: Mapping[str, Any]) -> None:
        """Count a step, one of an earlier session too, without complaint."""
        shares = {**record, UNREADABLE: _unreadable_share(record)}
        for key in _WATCHED_SHARES:
            stuck = shares.get(key, 0.0) >= STUCK_SHARE
            self._stuck_steps[key] = self._stuck_steps[key] + 1 if stuck else 0

    def check(self, record: Mapping[str, Any]) -> None:
        """Count a step; warn or raise DivergedError where going on is pointless."""
        self.count(record)
        for key in ("loss", "grad_norm"):
            if not math.isfinite(record[key]):
                self._complain(
                    f"{key} is {record[key]} at step {record['step']}",
                    "lower rl.learning_rate or rl.max_grad_norm; `runs` keeps the last checkpoint",
                    final=True,
                )
        for key, (problem, advice) in _WATCHED_SHARES.items():
            steps = self._stuck_steps[key]
            if steps == 1:
                cause = f"at step {record['step']} at least {STUCK_SHARE:.0%} of the {problem}"
                self._complain(cause, advice, final=False)
            elif steps == STOP_AFTER_STEPS and key != UNREADABLE:
                cause = f"for {steps} steps at least {STUCK_SHARE:.0%} of the {problem}"
                self._complain(cause, advice, final=True)

    def _complain(self, cause: str, advice: str, *, final: bool) -> None:
        if final and self.stop:
            raise DivergedError(cause, f"{advice}; rl.stop_when_stuck=false trains on regardless")
        warnings.warn(f"{cause}: {advice}", stacklevel=2)


OnStep = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Watch:
    """Callbacks of a training: `on_step` gets each record; `mirrors` are open until it ends.

    `on_validation` is called within a step with the samples so far, and of all.
    """

    on_step: OnStep
    on_validation: Callable[[int, int], None]
    mirrors: Sequence[Follower]


@contextmanager
def watched(
    run: Run, tracking: TrackingSection, job: str, progress: Progress, shown: Mapping[str, str]
) -> Iterator[Watch]:
    """Show and mirror a training while the block lasts.

    `shown` maps metrics to the names beside the bar. Says where a training is taken up.
    """
    if saved := saved_step(run.checkpoints):
        progress.say(f"[bold]{run.id}[/]: continues from step {saved}")
    mirrors = mirrors_of(tracking, run)
    begun, beside = False, dict[str, Any]()
    waiting = ExitStack()

    def on_step(metrics: Mapping[str, Any]) -> None:
        nonlocal begun
        if not begun:
            waiting.close()
            done = int(metrics["step"]) - 1
            progress.begin(f"{job} {run.id}", int(metrics["of"]), "steps", done)
            begun = True
        beside.update({name: metrics[key] for key, name in shown.items() if key in metrics})
        progress.advance(**beside)
        for mirror in mirrors:
            mirror.log(metrics)

    def on_validation(done: int, of: int) -> None:
        if begun:
            progress.advance(0, **beside, **{"validating: samples": float(done), "of": float(of)})

    try:
        waiting.enter_context(progress.doing(f"{job} {run.id}: loading, then the first step"))
        yield Watch(on_step, on_validation, mirrors)
    finally:
        waiting.close()
        progress.end()
        for mirror in mirrors:
            mirror.close()
