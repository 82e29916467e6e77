"""Where a report's numbers came from, as data; what is not known is null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class PolicyUsed:
    """A model: what tables call it, where it is, what its weights are, which run it came from."""

    label: str
    path: str | None = None
    fingerprint: str | None = None
    run: str | None = None
    base: str | None = None


@dataclass(frozen=True)
class GraderUsed:
    """How answers became verdicts; `tolerance` is relative, `version` the grader's identity."""

    mode: str
    judge: str | None = None
    tolerance: float | None = None
    version: str | None = None


@dataclass(frozen=True)
class BenchmarkUsed:
    """A benchmark: how many problems, read from where (file hashes, Hub commits), graded how."""

    name: str
    problems: int | None = None
    origins: tuple[str, ...] | None = None
    grader: GraderUsed | None = None


@dataclass(frozen=True)
class SamplesUsed:
    """A sample set: whose completions, of which seed and template, drawn by which engine."""

    key: str
    policy: str | None = None
    seed: int | None = None
    template: str | None = None
    engine: str | None = None


@dataclass(frozen=True)
class Provenance:
    """All that a reader needs to judge the numbers and to compute them again.

    `sampling` are the settings of `sampling`, `seeds` the evaluation seeds, `files` the content
    hashes of counts that were read from files. No date: the same data leave the same bytes.
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
        """What is known before anything is measured: versions, commit and command."""
        return cls(
            versions=surroundings["versions"],
            commit=surroundings["commit"],
            command=surroundings["command"],
        )

    def as_json(self) -> dict[str, Any]:
        """The fields as plain values."""
        return asdict(self)
