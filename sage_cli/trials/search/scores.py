"""The objectives of a sweep, from what was measured of trials and while they were trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sage_cli.metrics import Counts, pass_at_k
from sage_cli.settings.objective import Objective
from sage_cli.store.runs.run import Run

ByBenchmark = Mapping[str, Counts]
"""The counts of a policy on each benchmark."""


def score(objectives: Sequence[Objective], counts: ByBenchmark) -> tuple[float, ...]:
    """Each objective's value; pass@k is averaged over problems, then over benchmarks."""
    ks = {k for one in objectives for k in one.weights}
    pass_at = {
        k: sum(float(pass_at_k(one.n_P, one.c_P, k).mean()) for one in counts.values())
        / len(counts)
        for k in ks
    }
    return tuple(one.value(pass_at) for one in objectives)


def mean_scores(scores: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """The mean of each objective over replicates."""
    return tuple(sum(of_one) / len(scores) for of_one in zip(*scores, strict=True))


def validations(
    run: Run, objectives: Sequence[Objective]
) -> Iterator[tuple[int, tuple[float, ...]]]:
    """The objectives at each step at which a training was measured on the validation problems."""
    ks = {k for one in objectives for k in one.weights}
    for record in run.metrics.read():
        if all(f"eval/pass@{k}" in record for k in ks):
            pass_at = {k: float(record[f"eval/pass@{k}"]) for k in ks}
            yield int(record["step"]), tuple(one.value(pass_at) for one in objectives)


def describe(point: Mapping[str, object]) -> str:
    """The point's values by short name: `tau 0.465, rho 0.775`."""
    return ", ".join(
        f"{key.rsplit('.', 1)[-1]} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in point.items()
    )
