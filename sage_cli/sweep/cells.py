"""A sweep's cells: how each is configured, which runs it leads to, what is stored of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sage_cli.config.consent import consents
from sage_cli.config.load import changed
from sage_cli.config.objective import Objective
from sage_cli.config.recipe import EvaluationSpec, RlSpec, SftSpec
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.stored import stored_counts
from sage_cli.metrics import Counts, pass_at_k
from sage_cli.policies.planned import planned_base, rl_run
from sage_cli.policies.policy import Policy
from sage_cli.store.run import Run, Runs
from sage_cli.sweep.space import Cell

ByBenchmark = Mapping[str, Counts]
"""What a policy got right on each benchmark."""


@dataclass(frozen=True)
class Training:
    """One training of a cell: the `seed`-th, its configuration, its parent, and its run."""

    cell: Cell
    seed: int
    config: SageConfig
    base: Policy
    run: Run


class Cells:
    """The trainings of any cell, with their counts on the development problems."""

    def __init__(self, shared: SageConfig, sweep: str, benchmarks: Sequence[Benchmark]) -> None:
        """`shared` is what all cells have in common; `sweep` the group of their runs in W&B."""
        self.shared, self.benchmarks = shared, tuple(benchmarks)
        self._group, self._runs = sweep, Runs(shared.run.root)

    @property
    def base(self) -> Policy:
        """What the shared configuration begins with."""
        return planned_base(SftSpec.of(self.shared), self._runs)

    def training(self, cell: Cell, seed: int = 0) -> Training:
        """The `seed`-th training of `cell`; known before anything runs."""
        config = cell_config(self.shared, {**cell, "tracking.group": self._group}, seed)
        base = planned_base(SftSpec.of(config), self._runs)
        recipe = RlSpec.of(config)
        return Training(
            cell, seed, config, base, rl_run(recipe, base, self._runs, recipe.rl.processes)
        )

    def counts(self, policy: Policy, config: SageConfig) -> ByBenchmark | None:
        """What is stored of a policy, by benchmark; None unless all of it is.

        Raises SageError where what is stored can't be counted.
        """
        if not policy.is_here:
            return None
        recipe = EvaluationSpec.of(config)
        n = recipe.evaluation.samples
        found = {}
        for one in self.benchmarks:
            ((counts,),) = stored_counts(policy, one, recipe, config.run.root, (n,)).values()
            found[one.name] = counts
        return found if all((counts.n_P == n).all() for counts in found.values()) else None

    def trained(self, training: Training) -> ByBenchmark | None:
        """The counts of a training that is finished and measured; None of any other."""
        consent = consents(training.config.model)
        return self.counts(Policy.of_run(training.run, consent=consent), training.config)


def cell_config(shared: SageConfig, cell: Cell, seed: int = 0) -> SageConfig:
    """The configuration of a cell's `seed`-th training."""
    config = changed(shared, cell)
    return changed(config, {"rl.seed": config.rl.seed + seed}) if seed else config


def score(objectives: Sequence[Objective], counts: ByBenchmark) -> tuple[float, ...]:
    """Each objective's value, its pass@k averaged over problems, then over benchmarks."""
    ks = {k for one in objectives for k in one.weights}
    pass_at = {
        k: sum(float(pass_at_k(one.n_P, one.c_P, k).mean()) for one in counts.values())
        / len(counts)
        for k in ks
    }
    return tuple(one.value(pass_at) for one in objectives)


def looks(run: Run, objectives: Sequence[Objective]) -> Iterator[tuple[int, tuple[float, ...]]]:
    """The objectives at each step at which a training looked at the development problems."""
    for record in run.metrics.read():
        ks = {k for one in objectives for k in one.weights}
        if all(f"eval/pass@{k}" in record for k in ks):
            pass_at = {k: float(record[f"eval/pass@{k}"]) for k in ks}
            yield int(record["step"]), tuple(one.value(pass_at) for one in objectives)


def mean_scores(scores: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The mean of each objective over trainings."""
    return tuple(sum(of_one) / len(scores) for of_one in zip(*scores, strict=True))


def in_words(cell: Mapping[str, object]) -> str:
    """`tau 0.465, rho 0.775`."""
    return ", ".join(
        f"{key.rsplit('.', 1)[-1]} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in cell.items()
    )
