"""The provenance of a report's numbers; what is unknown is null."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import TypedDict

from sage_cli.grading.grades import STATUSES
from sage_cli.metrics import Counts


@dataclass(frozen=True)
class PolicyUsed:
    """A model: its label in tables, its path, its weights' fingerprint, its run and base."""

    label: str
    path: str | None = None
    fingerprint: str | None = None
    run: str | None = None
    base: str | None = None


@dataclass(frozen=True)
class GraderUsed:
    """The grader of answers; `tolerance` is relative, `version` the grader's identity."""

    mode: str
    judge: str | None = None
    tolerance: float | None = None
    version: str | None = None


@dataclass(frozen=True)
class BenchmarkUsed:
    """A benchmark: its problems, their origins (file hashes, Hub commits), and their grader."""

    name: str
    problems: int | None = None
    origins: tuple[str, ...] | None = None
    grader: GraderUsed | None = None


@dataclass(frozen=True)
class SamplesUsed:
    """A sample set: its policy, seed, prompt template, and sampling engine."""

    key: str
    policy: str | None = None
    seed: int | None = None
    template: str | None = None
    engine: str | None = None


@dataclass(frozen=True)
class Provenance:
    """Everything needed to judge the numbers and to compute them again.

    `sampling` are the settings of `sampling`, `seeds` the evaluation seeds, `files` the hashes of
    files of counts. There is no date, so that the same data give the same bytes.
    """

    policies: tuple[PolicyUsed, ...] | None = None
    benchmarks: tuple[BenchmarkUsed, ...] | None = None
    samples: tuple[SamplesUsed, ...] | None = None
    sampling: Mapping[str, Any] | None = None
    seeds: tuple[int, ...] | None = None
    files: Mapping[str, str] | None = None
    versions: Mapping[str, str] | None = None
    commit: str | None = None
    command: str | None = None

    @classmethod
    def here(cls, surroundings: Mapping[str, Any]) -> Provenance:
        """Return versions, commit and command, which are known before anything is measured."""
        return cls(**{key: surroundings[key] for key in ("versions", "commit", "command")})


@dataclass(frozen=True)
class SeedCounts:
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


class ProblemCounts(TypedDict):
    """A problem's c right samples among n."""

    problem: str
    n: int
    c: int


class SeedCountsJson(TypedDict):
    """The measurement of one evaluation seed: grades, and n and c of every problem."""

    seed: int
    sample_set: str
    statuses: dict[str, int]
    truncated: int
    problems: list[ProblemCounts]


def record(measured: SeedCounts) -> SeedCountsJson:
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


def grade_notes(measured: Sequence[SeedCounts]) -> tuple[str, ...]:
    """Return notes as `grpo on aime, evaluation seed 0: 40 right, 8 wrong; 2 of them truncated`."""
    return tuple(
        f"{counted.policy} on {counted.benchmark}, evaluation seed {counted.seed}: "
        f"{_grades(counted)}"
        for counted in measured
    )


def _grades(measured: SeedCounts) -> str:
    """Return the numbers of grades, in the order of `STATUSES`."""
    given = sorted(measured.statuses, key=lambda status: (*STATUSES, status).index(status))
    counted = ", ".join(f"{measured.statuses[status]:,} {status}" for status in given)
    return counted + (f"; {measured.truncated:,} of them truncated" if measured.truncated else "")
