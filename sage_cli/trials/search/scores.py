"""The objectives of a sweep, from what was measured of trials and while they were trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sage_cli.metrics.comparisons.objective import Result, by_problem
from sage_cli.settings.objective import Objective
from sage_cli.store.runs.run import Run

ByBenchmark = Mapping[str, Result]
"""The results of a policy on each benchmark."""


def score(objectives: Sequence[Objective], results: ByBenchmark) -> tuple[float, ...]:
    """Each objective's value; it is averaged over problems, then over benchmarks."""
    return tuple(
        sum(float(by_problem(one, result).mean()) for result in results.values()) / len(results)
        for one in objectives
    )


def mean_scores(scores: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The mean of each objective over replicates."""
    return tuple(sum(of_one) / len(scores) for of_one in zip(*scores, strict=True))


def validations(
    run: Run, objectives: Sequence[Objective]
) -> Iterator[tuple[int, tuple[float, ...]]]:
    """The objectives at each step at which a training was measured on the validation problems."""
    names = {name for one in objectives for name in one.terms.values()}
    for record in run.metrics.read():
        if all(f"eval/{name}" in record for name in names):
            measured = {name: float(record[f"eval/{name}"]) for name in names}
            yield int(record["step"]), tuple(one.value(measured) for one in objectives)


def describe(point: Mapping[str, object]) -> str:
    """The point's values by short name: `tau 0.465, rho 0.775`."""
    return ", ".join(
        f"{key.rsplit('.', 1)[-1]} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in point.items()
    )
