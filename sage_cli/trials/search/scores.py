"""The results of a trial's replicates from the store, and a sweep's objectives from these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sage_cli.config.specs import EvaluationSpec
from sage_cli.metrics import pooled
from sage_cli.metrics.comparisons.objective import Result, by_problem
from sage_cli.metrics.counts.exact import Worked
from sage_cli.settings.objective import Objective
from sage_cli.store.runs.run import Run
from sage_cli.trials.stored import StoredMeasurements
from sage_cli.trials.task import Measurements
from sage_cli.trials.trial import Replicate

if TYPE_CHECKING:
    from sage_cli.evaluation.exact.chances import Chances

ByBenchmark = Mapping[str, Result]
"""The results of a policy on each benchmark."""


def stored_results(stored: StoredMeasurements, one: Replicate) -> ByBenchmark | None:
    """Return a replicate's results by benchmark; None unless all of them are stored.

    Raises SageError if what is stored cannot be read.
    """
    if not one.config.evaluation.chances:
        measured = stored.measured(one.policy, one.config)
        return None if measured is None else results_of(measured)
    temperatures = EvaluationSpec.of(one.config).temperatures
    own, initial = (
        stored.chances(policy, one.config, temperatures) if policy.exists else None
        for policy in (one.policy, one.initial)
    )
    if own is None or initial is None:
        return None
    at = temperatures.index(one.config.sampling.temperature)
    return {
        name: Worked(
            chances.problem_ids,
            _at_each(chances, temperatures),
            _at_each(initial[name], temperatures),
            at,
        )
        for name, chances in own.items()
    }


def results_of(measured: Measurements) -> ByBenchmark:
    """Return the counts of a policy by benchmark, evaluation seeds pooled."""
    return {name: pooled([seed.counts for seed in seeds]) for name, seeds in measured.items()}


def _at_each(chances: Chances, temperatures: Sequence[float]) -> np.ndarray:
    return np.stack([chances.at(temperature) for temperature in temperatures])


def score(objectives: Sequence[Objective], results: ByBenchmark) -> tuple[float, ...]:
    """Each objective's value; it is averaged over problems, then over benchmarks."""
    return tuple(
        sum(float(by_problem(one, result).mean()) for result in results.values()) / len(results)
        for one in objectives
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


def describe(point: Mapping[str, object]) -> str:
    """The point's values by short name: `tau 0.465, rho 0.775`."""
    return ", ".join(
        f"{key.rsplit('.', 1)[-1]} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in point.items()
    )
