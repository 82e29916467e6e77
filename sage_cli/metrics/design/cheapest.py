"""The cheapest design that detects a difference between two methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from sage_cli.metrics.design.population import Population
from sage_cli.metrics.design.power import COARSE, Design, Spread, smallest_changes

PROBLEMS = (50, 100, 200, 400, 800, 1600, 3200)
TIMES_K = (1, 2, 4, 8, 16)
"""Samples per problem that are tried, as multiples of k."""
RUNS = (1, 2, 3, 5)
POLICIES = (3, 4, 6, 8, 12, 16, 24)
MEASURED = Spread(policies=0.19, runs=0.08)
"""Deviations of the difference of two methods on generated products, in log-odds: between pairs of
training seeds .004 of pass@256, between initial policies .010 with one seed each, where pass@256
rises by .05 a unit of log-odds."""


@dataclass(frozen=True)
class Seconds:
    """The time of an initial policy, of a training, and of a graded sample."""

    policy: float
    training: float
    sample: float

    def trainings(self, design: Design) -> float:
        """Return the seconds of training: initial policies, and two methods from each."""
        return design.policies * (self.policy + 2 * design.runs * self.training)

    def samples(self, design: Design) -> float:
        """Return the seconds of measuring both methods."""
        measured = 2 * design.policies * design.runs * design.problems
        return measured * design.samples * design.seeds * self.sample

    def total(self, design: Design) -> float:
        """Return the seconds of everything."""
        return self.trainings(design) + self.samples(design)


@dataclass(frozen=True)
class Choice:
    """A design, the smallest difference that it detects, and its seconds."""

    design: Design
    smallest: float
    trainings_s: float
    samples_s: float

    @property
    def total_s(self) -> float:
        """Return the seconds of training and measuring."""
        return self.trainings_s + self.samples_s


def designs_for(
    k: int, spread: Spread, problems: Sequence[int] = (), samples: Sequence[int] = ()
) -> list[Design]:
    """Return the designs that are tried; `problems` and `samples` hold them to these numbers.

    One initial policy is tried where they are taken not to differ.
    """
    counts = problems or PROBLEMS
    ns = [n for n in samples if n >= k] or [k * times for times in TIMES_K]
    policies = POLICIES if spread.policies else (1, *POLICIES)
    made = product(counts, ns, RUNS, policies)
    return [
        Design(p, n, runs=runs, policies=i)
        for p, n, runs, i in made
        if i > 1 or runs > 1 or not spread.runs
    ]


def cheapest(
    population: Population,
    difference: float,
    k: int,
    designs: Sequence[Design],
    seconds: Seconds,
    *,
    spread: Spread = MEASURED,
    **assumed: Any,
) -> list[Choice]:
    """Return the cheapest design for each number of samples that detects `difference` at k.

    The cheapest of all comes first. `assumed` is as for `smallest_changes`. A number of samples
    with which no design does is left out.
    """
    smallest_Q = smallest_changes(
        population, designs, (k,), spread=spread, shifts=COARSE, **assumed
    )[:, 0]
    choices = [
        Choice(one, float(smallest), seconds.trainings(one), seconds.samples(one))
        for one, smallest in zip(designs, smallest_Q, strict=True)
        if smallest <= difference
    ]
    by_samples: dict[int, Choice] = {}
    for choice in sorted(choices, key=lambda choice: choice.total_s):
        by_samples.setdefault(choice.design.samples, choice)
    return list(by_samples.values())
