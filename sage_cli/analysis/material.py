"""What analyses read, and how they are asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sage_cli.analysis.answers import Answers
from sage_cli.analysis.detectors import Detector
from sage_cli.metrics import Counts
from sage_cli.reports.provenance import Provenance


@dataclass(frozen=True)
class Asked:
    """How an analysis is asked: confidence and resamples of its intervals, and its own options.

    `deltas` are for `support`, `detectors` for `patterns`.
    """

    confidence: float = 0.95
    resamples: int = 2000
    deltas: tuple[float, ...] = (0.0, 0.01, 0.1, 0.5)
    detectors: tuple[Detector, ...] = ()


@dataclass(frozen=True)
class TrainedRun:
    """A run's records, and what is stored of its checkpoints: benchmark -> step -> counts."""

    run: str
    """Its id, whatever it is called."""
    records: Sequence[Mapping[str, Any]]
    measured: Mapping[str, Mapping[int, Counts]] = field(default_factory=dict)


ModeChances = Mapping[str, Mapping[str, float]]
"""Problem id -> mode -> the chance that a completion announces it."""


@dataclass(frozen=True)
class Material:
    """What is there to analyse, in the order in which the policies are shown.

    `answers` are by benchmark, the base's first where the analysis compares with one; `trained` is
    by what the run is called; `modes` by benchmark and policy. An analysis finds what it said that
    it needs.
    """

    answers: Mapping[str, tuple[Answers, ...]] = field(default_factory=dict)
    trained: Mapping[str, TrainedRun] = field(default_factory=dict)
    modes: Mapping[tuple[str, str], ModeChances] = field(default_factory=dict)
    asked: Asked = Asked()
    provenance: Provenance = field(default_factory=Provenance)

    def each(self) -> Iterator[Answers]:
        """Benchmark after benchmark, each policy's answers."""
        for answers in self.answers.values():
            yield from answers

    @property
    def policies(self) -> tuple[str, ...]:
        """The policies' labels."""
        first: tuple[Answers, ...] = next(iter(self.answers.values()), ())
        return tuple(one.policy for one in first)
