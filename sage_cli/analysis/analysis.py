"""The contract of an analysis: its inputs, its options, and what it declares."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from sage_cli.analysis.graded_samples import Answers, Detector
from sage_cli.errors import StoreError
from sage_cli.metrics import Counts
from sage_cli.metrics.intervals import Resampling
from sage_cli.reports.document import Document
from sage_cli.reports.provenance import Provenance

Option = Literal["delta", "patterns", "alpha", "survival"]
Scorer = Literal["base", "self"]


@dataclass(frozen=True)
class Options:
    """Confidence and resamples of intervals, and the options of single analyses.

    Deltas and `survival` are of `support`, detectors of `patterns`, alphas of `sharpening`.
    """

    confidence: float = 0.95
    resamples: int = 2000
    deltas: tuple[float, ...] = (0.0, 0.01, 0.1, 0.5)
    detectors: tuple[Detector, ...] = ()
    alphas: tuple[float, ...] = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0)
    survival: bool = False

    @property
    def resampling(self) -> Resampling:
        """Return how every interval of an analysis is resampled."""
        return Resampling(self.confidence, self.resamples)


@dataclass(frozen=True)
class TrainedRun:
    """A run's id, its records, counts of its checkpoints by benchmark and step, and its ledger.

    `completions` reads those that it kept, which are many.
    """

    run: str
    records: Sequence[Mapping[str, Any]]
    measured: Mapping[str, Mapping[int, Counts]] = field(default_factory=dict)
    ledger: pa.Table | None = None
    completions: Callable[[], Sequence[Any] | pa.Table] = tuple

    def require_ledger(self) -> pa.Table:
        """Return the ledger. Raises StoreError if there is none."""
        if self.ledger is None or not len(self.ledger):
            raise StoreError(
                f"{self.run} has no ledger: it samples nothing as it trains, or is older than "
                "ledgers",
                "train it again, with --fresh",
            )
        return self.ledger


@dataclass(frozen=True)
class Inputs:
    """The inputs of an analysis, in the order in which policies are shown.

    `answers` are by benchmark, the base's first if the analysis needs a base; `trained` is by the
    run's label. `readings` are the base's answers as each reader scores them at temperature 1, the
    base itself first. Only what the analysis declares is there.
    """

    answers: Mapping[str, tuple[Answers, ...]] = field(default_factory=dict)
    trained: Mapping[str, TrainedRun] = field(default_factory=dict)
    readings: Mapping[str, tuple[Answers, ...]] = field(default_factory=dict)
    options: Options = Options()
    provenance: Provenance = field(default_factory=Provenance)

    def each(self) -> Iterator[Answers]:
        """Yield each policy's answers, benchmark after benchmark."""
        for answers in self.answers.values():
            yield from answers

    @property
    def policies(self) -> tuple[str, ...]:
        """Return the policies' labels."""
        first: tuple[Answers, ...] = next(iter(self.answers.values()), ())
        return tuple(answers.policy for answers in first)


@dataclass(frozen=True)
class Analysis:
    """A pure function `compute` of inputs; `says` is a sentence about its result.

    It needs graded samples, or with `records` the runs' training records; with `base` also those
    of the base. `scorer` loads a model: the base or the policy itself (`self`) computes surprisal
    and entropy of completions; results are stored. `options` are those that it uses.

    `readers` says who reads the base's samples at temperature 1: all policies if `survival` is
    asked for, or the base, which then must be sampled at temperature 1 and without cuts.
    """

    name: str
    says: str
    compute: Callable[[Inputs], Document]
    records: bool = False
    base: bool = False
    scorer: Scorer | None = None
    options: frozenset[Option] = frozenset()
    readers: Literal["base", "all if survival"] | None = None
