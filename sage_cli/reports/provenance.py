"""Provenance: what a report's numbers were made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any

from sage_cli.settings.own_code import names_code

_OFF = {"top_p": 1, "top_k": 0}
"""Values that leave no token out, which need not be told."""


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

    `sampling` are the settings of `sampling`, `n` the samples of each problem, `seeds` the
    evaluation seeds, `files` the hashes of files of counts. There is no date, so that the same data
    give the same bytes.
    """

    policies: tuple[PolicyUsed, ...] | None = None
    benchmarks: tuple[BenchmarkUsed, ...] | None = None
    samples: tuple[SamplesUsed, ...] | None = None
    sampling: Mapping[str, Any] | None = None
    n: int | None = None
    seeds: tuple[int, ...] | None = None
    files: Mapping[str, str] | None = None
    versions: Mapping[str, str] | None = None
    commit: str | None = None
    command: str | None = None

    @classmethod
    def here(cls, surroundings: Mapping[str, Any]) -> Provenance:
        """Return versions, commit and command, which are known before anything is measured."""
        return cls(**{key: surroundings[key] for key in ("versions", "commit", "command")})

    @property
    def sampled(self) -> str | None:
        """The line below a table of pass@k: see `sampled_as`."""
        return sampled_as(asdict(self))


def sampled_as(provenance: Mapping[str, Any]) -> str | None:
    """Return `temperature 1, min_p 0, max_tokens 48; n 256; aime (60 problems); grading strict`.

    None where nothing is known of sampling. `provenance` is as it is stored.
    """
    sampling, benchmarks = provenance.get("sampling"), provenance.get("benchmarks") or ()
    if not sampling:
        return None
    names = ("temperature", "min_p", "top_p", "top_k", "max_tokens")
    recorded = {name: sampling[name] for name in names if sampling.get(name) is not None}
    settings = [f"{k} {v:g}" for k, v in recorded.items() if _OFF.get(k) != v]
    n, seeds = provenance.get("n"), provenance.get("seeds") or ()
    counts = [f"n {n}"] if n else []
    counts += [f"evaluation seeds {', '.join(map(str, seeds))}"] if len(seeds) > 1 else []
    on = [
        f"{used['name']} ({used['problems']} problem{'s' * (used['problems'] != 1)})"
        for used in benchmarks
    ]
    graders = {_graded_by(used["grader"]) for used in benchmarks if used.get("grader")}
    return "; ".join(", ".join(part) for part in (settings, counts, on, sorted(graders)) if part)


def _graded_by(grader: Mapping[str, Any]) -> str:
    """Return `grading strict`, or `grading strict by mine.py:near` for a judge of one's own."""
    judge = grader.get("judge")
    own = f" by {PurePath(judge).name}" if judge is not None and names_code(judge) else ""
    return f"grading {grader['mode']}{own}"
