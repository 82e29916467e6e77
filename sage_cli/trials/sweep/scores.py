"""What a study is told of a trial: its objectives' values, from counts or validations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from sage_cli.settings.objective import Objective
from sage_cli.store.run import Run
from sage_cli.trials.stored_results import MeasuredSeeds

if TYPE_CHECKING:
    from sage_cli.metrics import Counts


ByBenchmark = Mapping[str, "Counts"]
"""The results of a policy on each benchmark."""


def pooled_counts(measured: MeasuredSeeds) -> ByBenchmark:
    """Return the counts of a policy by benchmark, evaluation seeds pooled."""
    from sage_cli.metrics import pooled

    return {name: pooled([seed.counts for seed in seeds]) for name, seeds in measured.items()}


def trial_values(objectives: Sequence[Objective], results: ByBenchmark) -> tuple[float, ...]:
    """Each objective's value; it is averaged over problems, then over benchmarks."""
    from sage_cli.metrics.ranking import objective_by_problem

    return tuple(
        sum(float(objective_by_problem(objective, result).mean()) for result in results.values())
        / len(results)
        for objective in objectives
    )


def mean_scores(scores: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The mean of each objective over replicates."""
    return tuple(sum(of_one) / len(scores) for of_one in zip(*scores, strict=True))


def validations(run: Run, objective: Objective) -> Iterator[tuple[int, float]]:
    """The objective at each step at which a training was measured on the validation problems."""
    names = set(objective.terms.values())
    for record in run.metrics.read():
        if all(f"eval/{name}" in record for name in names):
            measured = {name: float(record[f"eval/{name}"]) for name in names}
            yield int(record["step"]), objective.value(measured)
