"""The table of the cheapest designs that detect a wished difference of two methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from typing_extensions import TypedDict

from sage_cli.metrics.design.cheapest import Choice, Seconds
from sage_cli.metrics.design.power import Spread
from sage_cli.reports.tables.table import Measure, Row, Table, columns


@dataclass(frozen=True)
class Wish:
    """A difference of two methods at k that is to be detected, and what its cost rests on.

    `problems` and `samples` hold the designs to these numbers where they aren't empty; `measured`
    says where the seconds come from.
    """

    difference: float
    k: int
    spread: Spread
    seconds: Seconds
    measured: str
    problems: tuple[int, ...] = ()
    samples: tuple[int, ...] = ()


class CheapestJson(TypedDict):
    """A design of two methods, what it detects, and its hours."""

    problems: int
    samples: int
    training_seeds: int
    initial_policies: int
    smallest: float
    training_hours: float
    measuring_hours: float


def cheapest_table(place: str, wish: Wish, choices: Sequence[Choice]) -> Table:
    """Return a row for each number of samples, the cheapest design of all first."""
    heads = columns("problems, samples, training seeds, initial policies, detects, hours")
    rows = tuple(
        Row((one["problems"], one["samples"], one["training_seeds"], one["initial_policies"],
             Measure(one["smallest"]), _hours(one)))
        for one in map(cheapest_json, choices)
    )  # fmt: skip
    title = f"cheapest designs that detect {wish.difference:g} of pass@{wish.k} on {place}"
    return Table(title, heads, rows, _notes(wish, choices))


def cheapest_json(choice: Choice) -> CheapestJson:
    """Return a choice as it stands in the report's data."""
    design = choice.design
    return {
        "problems": design.problems,
        "samples": design.samples,
        "training_seeds": design.runs,
        "initial_policies": design.policies,
        "smallest": choice.smallest,
        "training_hours": choice.trainings_s / 3600,
        "measuring_hours": choice.samples_s / 3600,
    }


def _hours(one: CheapestJson) -> Measure:
    return Measure(one["training_hours"] + one["measuring_hours"], digits=2)


def _notes(wish: Wish, choices: Sequence[Choice]) -> tuple[str, ...]:
    spread, seconds = wish.spread, wish.seconds
    if choices:
        best = choices[0].design
        first = (
            f"cheapest: {best.problems:,} problems, n = {best.samples:,}, initial policies: "
            f"{best.policies}, training seeds of either method from each: {best.runs}"
        )
    else:
        first = f"no design that was tried detects {wish.difference:g}: wish for a larger one"
    return (
        first,
        "a row: the cheapest design with that n; two methods that share initial policies, seeds "
        "and problems",
        f"assumed: the difference varies by {spread.policies:g} between initial policies and by "
        f"{spread.runs:g} between training seeds, in log-odds (--spread); between two methods "
        "problems differ less than between a policy and its initial one (--heterogeneity)",
        f"an initial policy takes {seconds.policy:.3g} s, a training {seconds.training:.3g} s, a "
        f"graded sample {seconds.sample:.2g} s, one after the other ({wish.measured})",
    )
