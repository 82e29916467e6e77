"""The report of `sage power`: the smallest detectable changes by design and k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sage_cli.metrics import Counts, pass_at_k
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.power import POWER, Design, Population, resampled_changes, smallest_changes
from sage_cli.reports.document import Document
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables import Column, Estimate, Row, Table, columns
from sage_cli.store.files import file_stems


@dataclass(frozen=True)
class Question:
    """A power analysis: designs, ks, gains or losses, and assumptions.

    `like` names the run that the grades' correlation was estimated from, if any.
    """

    designs: tuple[Design, ...]
    ks: tuple[int, ...]
    loss: bool
    heterogeneity: float
    correlation: float
    confidence: float
    like: str | None = None

    @property
    def change(self) -> str:
        """Return `gain` or `loss`."""
        return "loss" if self.loss else "gain"


@dataclass(frozen=True, eq=False)
class Base:
    """A base on a benchmark: its counts, the Beta fitted to them, smallest changes (D, K).

    `ends_2QK` are the low and high ends of their intervals.
    """

    label: str
    benchmark: str
    counts: Counts
    question: Question
    beta: tuple[float, float]
    smallest_QK: FloatArray
    ends_2QK: FloatArray

    @classmethod
    def from_counts(cls, label: str, benchmark: str, counts: Counts, question: Question) -> Base:
        """Return what each design would detect on problems like the counted ones."""
        population = Population.from_counts(counts)
        designs, ks = question.designs, question.ks
        names = ("loss", "heterogeneity", "correlation", "confidence")
        assumed: dict[str, Any] = {name: getattr(question, name) for name in names}
        smallest_QK = smallest_changes(population, designs, ks, **assumed)
        ends_2QK = resampled_changes(counts, designs, ks, beta=population.beta, **assumed)
        ends_2QK = np.where(np.isnan(smallest_QK), np.nan, ends_2QK)
        return cls(label, benchmark, counts, question, population.beta, smallest_QK, ends_2QK)

    def change(self, design: int, place: int) -> Estimate:
        """Return a design's smallest change at a k with its interval."""
        low, high = self.ends_2QK[:, design, place].tolist()
        return Estimate(float(self.smallest_QK[design, place]), interval=(low, high))


def power_document(bases: Sequence[Base], provenance: Provenance) -> Document:
    """Return the report: a table per base.

    The bases' questions differ in designs and correlations at most.
    """
    question, tables = bases[0].question, tuple(map(power_table, bases))
    models, benchmarks = (
        file_stems(names)
        for names in ([base.label for base in bases], [base.benchmark for base in bases])
    )
    data: dict[str, Any] = {
        "k": list(question.ks),
        "change": question.change,
        "power": POWER,
        "confidence": question.confidence,
        "heterogeneity": question.heterogeneity,
        "bases": list(map(_base_json, bases)),
    }
    return Document(
        name="power",
        title=f"smallest detectable {question.change} of pass@k",
        provenance=provenance,
        data=data,
        tables=tables,
        sheets={
            f"power-{models[base.label]}-{benchmarks[base.benchmark]}"
            if len(bases) > 1
            else "power": table
            for base, table in zip(bases, tables, strict=True)
        },
        notes=(*_notes(question), *_unbounded_notes(bases)),
    )


def power_table(base: Base) -> Table:
    """Return a row per design: problems, samples, seeds, and the smallest change at each k."""
    question = base.question
    changes = (Column(f"pass@{k}", f"smallest {question.change}") for k in question.ks)
    places = range(len(question.ks))
    rows = tuple(
        Row((design.problems, design.samples, design.seeds, *(base.change(row, k) for k in places)))
        for row, design in enumerate(question.designs)
    )
    pass_at_k = _pass_at_ks(base.counts, question.ks)
    measured = ", ".join(f"pass@{k} {value:.3f}" for k, value in pass_at_k.items())
    known = f"{len(base.counts)} problems counted, {measured or 'too few samples for k'}"
    title = f"smallest detectable {question.change} on {base.benchmark} from {base.label}"
    notes = (f"{base.label}: {known}", *_beyond_counts(base), _correlation_note(question))
    return Table(title, (*columns("problems, samples, seeds"), *changes), rows, notes)


def _beyond_counts(base: Base) -> list[str]:
    """Return a warning for the ks above the counted samples."""
    counted = int(base.counts.n_P.min())
    beyond = ", ".join(f"pass@{k}" for k in base.question.ks if k > counted)
    if not beyond:
        return []
    return [
        f"{beyond}: {counted:,} samples a problem are counted, so this rests on the Beta "
        "distribution fitted to the problems' success probabilities"
    ]


def _unbounded_notes(bases: Sequence[Base]) -> list[str]:
    """Return what an end of inf says, if there is one."""
    if not any(np.isinf(base.ends_2QK).any() for base in bases):
        return []
    change = bases[0].question.change
    return [
        f"inf: on some resampled sets of problems no {change} is large enough to be detected, so "
        "the interval has no upper end; count more problems"
    ]


def _pass_at_ks(counts: Counts, ks: Sequence[int]) -> dict[int, float]:
    """Return the base's pass@k at the ks that its counts allow."""
    known = [k for k in ks if k <= counts.n_P.min()]
    values_PK = pass_at_k(counts.n_P, counts.c_P, known) if known else None
    return {} if values_PK is None else dict(zip(known, map(float, values_PK.mean(0)), strict=True))


def _notes(question: Question) -> tuple[str, ...]:
    changes = (
        f"by normal amounts with standard deviation {question.heterogeneity:g} around a common one "
        "(--heterogeneity)"
        if question.heterogeneity
        else "by the same amount, which is the best case (--heterogeneity 0)"
    )
    return (
        *_alone(question),
        f"detected: in {POWER:.0%} of repetitions by a paired test at "
        f"{1 - question.confidence:.0%} two-sided; initial and trained policy answer the same "
        "problems",
        "assumed: problems like these, and a training that moves every problem's log-odds "
        f"{changes}",
        f"in brackets {question.confidence:.0%} intervals, the counted problems resampled: how "
        "much the answer depends on which problems were counted",
        "about two models, not two methods: training seeds differ besides, and count as runs in "
        "`sage compare A1,A2,A3 B1,B2,B3`",
        f"– : k exceeds the samples, or no {question.change} is large enough to be seen",
    )


def _alone(question: Question) -> tuple[str, ...]:
    """Return a warning if a design's n is a k: then the estimate of a problem is 0 or 1."""
    alone = sorted(
        {design.samples for design in question.designs} & {k for k in question.ks if k > 1}
    )
    return tuple(
        f"n = k = {k} is the noisiest estimate of pass@{k}, 0 or 1 for each problem: with the same "
        f"problems sample more, as n = {4 * k:,} (--samples)"
        for k in alone
    )


def _correlation_note(question: Question) -> str:
    source = f"estimated from {question.like}" if question.like else "--correlation, or --like RUN"
    return (
        f"grades of initial and trained policy on a sample correlate {question.correlation:.2f}, "
        f"since both share their random numbers ({source}); with another evaluation seed on one "
        "side they don't: --correlation 0"
    )


def _base_json(base: Base) -> dict[str, Any]:
    """Return a base with the Beta distribution fitted to its problems, and its pass@k.

    Each of `designs` has its smallest detectable change and that one's interval, a value for each
    k.
    """
    question = base.question
    ends = zip(question.designs, base.smallest_QK, *base.ends_2QK, strict=True)
    return {
        "base": base.label,
        "benchmark": base.benchmark,
        "problems": len(base.counts),
        "correlation": question.correlation,
        "like": question.like,
        "beta": list(base.beta),
        "pass@k": _pass_at_ks(base.counts, question.ks),
        "designs": [
            {
                **asdict(design),
                "smallest": smallest_K,
                "low": low_K,
                "high": high_K,
            }
            for design, smallest_K, low_K, high_K in ends
        ],
    }
