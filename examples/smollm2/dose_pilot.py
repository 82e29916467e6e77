"""What the pilot of the study smollm2-dose is asked, and what it answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from dose_units import PILOT, Line, Things, things

Steps = Mapping[str, list[float | None]]
"""Figures of a training by name, one for each step."""
LEAST_D, LEAST_Q, SHAPED, LEAST_RATIO = 1e-3, 1.2, (0.1, 0.3), 2.0


@dataclass(frozen=True)
class Answer:
    """A criterion with its value and whether it holds; both None where an arm has not ended."""

    asked: str
    value: float | None
    holds: bool | None


def pilot_of(kept: Iterable[Line]) -> dict[str, Steps]:
    """Return the steps of the pilot's trainings that have ended, by method.

    Where several machines have some, they are those of the one with the most.
    """
    groups: defaultdict[Things, dict[str, Steps]] = defaultdict(dict)
    for line in kept:
        if line["ended"] and line["seed"] == PILOT:
            groups[things(line["made_with"])][line["method"]] = line["steps"]
    return max(groups.values(), key=len, default={})


def criteria(pilot: Mapping[str, Steps]) -> list[Answer]:
    """Return the answers to (a), (b) and (c) of the declaration."""
    anchor, branch, control, envelope = map(pilot.get, ("anchor", "branch", "control", "envelope"))
    rise = d = q = shaped = ratio = None
    if anchor:
        rise = mean(last_half(anchor, "reward")) - mean(first_half(anchor, "reward"))
        d = mean_d(anchor)
    if branch:
        q, shaped = q_by_d(branch), mean(last_half(branch, "guide/shaped"))
    if control and envelope:
        ratio = mean_d(control) / mean_d(envelope)
    asked: list[tuple[str, float | None, Callable[[float], bool]]] = [
        ("a: reward of anchor rises", rise, lambda value: value > 0),
        ("a: mean d of anchor", d, lambda value: value >= LEAST_D),
        ("b: q of branch, weighted by d", q, lambda value: value >= LEAST_Q),
        ("b: tokens that branch shapes", shaped, lambda value: SHAPED[0] <= value <= SHAPED[1]),
        ("c: mean d, control / envelope", ratio, lambda value: value >= LEAST_RATIO),
    ]
    return [
        Answer(name, value, None if value is None else holds(value)) for name, value, holds in asked
    ]


def mean_d(steps: Steps) -> float:
    """Return the mean of d over the last half's steps."""
    return mean(last_half(steps, "kl/k3_reference"))


def q_by_d(steps: Steps) -> float:
    """Return q weighted by d over the tokens of the last half: a ratio of sums over steps, too.

    A step's sum of d is its mean times its tokens; every step has equally many completions.
    """
    names = ("guide/q_kl_mean", "kl/k3_reference", "completions/length")
    sums = [
        (q, d * length)
        for q, d, length in zip(*(last_half(steps, name) for name in names), strict=True)
        if q is not None and d is not None and length is not None
    ]
    whole = sum(d for _, d in sums)
    return sum(q * d for q, d in sums) / whole if whole else float("nan")


def first_half(steps: Steps, name: str) -> list[float | None]:
    """Return a figure of the first half of the steps."""
    return steps[name][: len(steps[name]) // 2]


def last_half(steps: Steps, name: str) -> list[float | None]:
    """Return a figure of the other steps."""
    return steps[name][len(steps[name]) // 2 :]


def mean(values: list[float | None]) -> float:
    """Return the mean of the known values; NaN without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else float("nan")
