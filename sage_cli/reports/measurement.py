"""The measurement of a policy on a benchmark, and its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from typing_extensions import TypedDict

from sage_cli.grading.grades import STATUSES
from sage_cli.metrics import Counts


@dataclass(frozen=True)
class Measured:
    """One policy on one benchmark with one evaluation seed.

    `statuses` counts grades over all completions, `truncated` those that hit the token limit.
    """

    policy: str
    benchmark: str
    seed: int
    counts: Counts
    statuses: Mapping[str, int]
    truncated: int
    sample_set: str


class Counted(TypedDict):
    """A problem's c right samples among n."""

    problem: str
    n: int
    c: int


class MeasuredJson(TypedDict):
    """The measurement of one evaluation seed: grades, and n and c of every problem."""

    seed: int
    sample_set: str
    statuses: dict[str, int]
    truncated: int
    problems: list[Counted]


def record(measured: Measured) -> MeasuredJson:
    """Return a measurement as JSON data."""
    counts = measured.counts
    return {
        "seed": measured.seed,
        "sample_set": measured.sample_set,
        "statuses": dict(measured.statuses),
        "truncated": measured.truncated,
        "problems": [
            {"problem": id_, "n": int(n), "c": int(c)}
            for id_, n, c in zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True)
        ],
    }


def grade_notes(measured: Sequence[Measured]) -> tuple[str, ...]:
    """Return notes as `grpo on aime, evaluation seed 0: 40 right, 8 wrong; 2 of them truncated`."""
    return tuple(
        f"{one.policy} on {one.benchmark}, evaluation seed {one.seed}: {_grades(one)}"
        for one in measured
    )


def _grades(measured: Measured) -> str:
    """Return the numbers of grades, in the order of `STATUSES`."""
    given = sorted(measured.statuses, key=lambda status: (*STATUSES, status).index(status))
    counted = ", ".join(f"{measured.statuses[status]:,} {status}" for status in given)
    return counted + (f"; {measured.truncated:,} of them truncated" if measured.truncated else "")
