"""The provenance of a report's numbers; what is unknown is null."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
