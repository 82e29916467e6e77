"""What designs could see, as a document: problems, samples and seeds against smallest changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.metrics import Counts, pass_at_k
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.design.population import Population
from sage_cli.metrics.design.power import Design, resampled_changes, smallest_changes
from sage_cli.metrics.design.precision import POWER
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.table import Column, Measure, Row, Table


@dataclass(frozen=True)
class Question:
    """What is asked of a base: designs, ks, gains or losses, and what is assumed.

    `like` names the run that the verdicts' correlation was estimated from, if any.
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
        """`gain` or `loss`."""
        return "loss" if self.loss else "gain"


@dataclass(frozen=True, eq=False)
class Base:
    """A base on a benchmark: its counts, the Beta fitted to them, smallest changes (D, K).

    `ends_2QK` are the ends of their intervals.
    """

    label: str
    benchmark: str
    counts: Counts
    question: Question
    beta: tuple[float, float]
    smallest_QK: FloatArray
    ends_2QK: FloatArray

    @classmethod
    def of(cls, label: str, benchmark: str, counts: Counts, question: Question) -> Base:
        """What each of the question's designs would see on problems like the counted ones."""
        population = Population.of(counts)
        designs, ks = question.designs, question.ks
        assumed: dict[str, Any] = {
            "loss": question.loss,
            "heterogeneity": question.heterogeneity,
            "correlation": question.correlation,
            "confidence": question.confidence,
        }
        smallest_QK = smallest_changes(population, designs, ks, **assumed)
        ends_2QK = resampled_changes(counts, designs, ks, beta=population.beta, **assumed)
        ends_2QK = np.where(np.isnan(smallest_QK), np.nan, ends_2QK)
        return cls(label, benchmark, counts, question, population.beta, smallest_QK, ends_2QK)

    def change(self, design: int, place: int) -> Measure:
        """A design's smallest change at a k, with its interval."""
        low, high = self.ends_2QK[:, design, place].tolist()
        return Measure(float(self.smallest_QK[design, place]), interval=(low, high))


class DesignJson(TypedDict):
    """The smallest detectable change of a design and its interval, a value for each k."""

    problems: int
    samples: int
    seeds: int
    smallest: FloatArray
    low: FloatArray
    high: FloatArray


BaseJson = TypedDict(
    "BaseJson",
    {
        "base": str,
        "benchmark": str,
        "problems": int,
        "correlation": float,
        "like": str | None,
        "beta": list[float],
        "pass@k": dict[int, float],
        "designs": list[DesignJson],
    },
)
"""A base with the Beta distribution that fits its problems, and its own pass@k."""


class PowerData(TypedDict):
    """What is asked, and the answer for each base."""

    k: list[int]
    change: str
    power: float
    confidence: float
    heterogeneity: float
    bases: list[BaseJson]


def power_document(bases: Sequence[Base], provenance: Provenance) -> Document:
    """A table per base, one picture of all, and every number.

    What is asked of the bases differs in their designs and correlations at most.
    """
    asked, tables = bases[0].question, tuple(map(power_table, bases))
    names = [Path(base.label).stem for base in bases]
    data: PowerData = {
        "k": list(asked.ks),
        "change": asked.change,
        "power": POWER,
        "confidence": asked.confidence,
        "heterogeneity": asked.heterogeneity,
        "bases": list(map(_base_json, bases)),
    }
    return Document(
        name="power",
        title=f"smallest detectable {asked.change} of pass@k",
        provenance=provenance,
        data=data,
        tables=tables,
        sheets={
            "power" if len(bases) == 1 else f"power-{name}-{Path(base.benchmark).stem}": table
            for name, base, table in zip(names, bases, tables, strict=True)
        },
        figures=(_figure(bases),),
        notes=_notes(asked),
    )


def power_table(base: Base) -> Table:
    """A row per design: problems, samples and seeds, and the smallest change at each k."""
    asked = base.question
    columns = (*map(Column, ("problems", "samples", "seeds")),
               *(Column(f"pass@{k}", f"smallest {asked.change}") for k in asked.ks))  # fmt: skip
    places = range(len(asked.ks))
    rows = tuple(
        Row((one.problems, one.samples, one.seeds, *(base.change(row, k) for k in places)))
        for row, one in enumerate(asked.designs)
    )
    now = ", ".join(f"pass@{k} {value:.3f}" for k, value in _now(base.counts, asked.ks).items())
    note = f"{base.label}: {len(base.counts)} problems counted, {now or 'too few samples for k'}"
    title = f"smallest detectable {asked.change} on {base.benchmark} from {base.label}"
    return Table(title, columns, rows, (note, _correlation_note(asked)))


def _now(counts: Counts, ks: Sequence[int]) -> dict[int, float]:
    """The base's own pass@k where its counts tell it."""
    known = [k for k in ks if k <= counts.n_P.min()]
    values_PK = pass_at_k(counts.n_P, counts.c_P, known) if known else None
    return {} if values_PK is None else dict(zip(known, map(float, values_PK.mean(0)), strict=True))


def _notes(asked: Question) -> tuple[str, ...]:
    alike = (
        f"by normal amounts with standard deviation {asked.heterogeneity:g} around a common one "
        "(--heterogeneity)"
        if asked.heterogeneity
        else "by the same amount, which is the best case (--heterogeneity 0)"
    )
    return (
        f"detected: in {POWER:.0%} of repetitions by a paired test at "
        f"{1 - asked.confidence:.0%} two-sided; base and trained policy answer the same problems",
        f"assumed: problems like these, and a training that moves every problem's log-odds {alike}",
        f"in brackets {asked.confidence:.0%} intervals, the counted problems resampled: how much "
        "the answer depends on which problems were counted",
        "about two models, not two methods: training seeds differ besides, and count as runs in "
        "`sage compare A1,A2,A3 B1,B2,B3`",
        f"– : k exceeds the samples, or no {asked.change} is large enough to be seen",
    )


def _correlation_note(asked: Question) -> str:
    source = f"estimated from {asked.like}" if asked.like else "--correlation, or --like RUN"
    return (
        f"verdicts of base and trained policy on a sample correlate {asked.correlation:.2f}, since "
        f"both share their random numbers ({source}); with another evaluation seed on one side "
        "they don't: --correlation 0"
    )


def _base_json(base: Base) -> BaseJson:
    asked = base.question
    return {
        "base": base.label,
        "benchmark": base.benchmark,
        "problems": len(base.counts),
        "correlation": asked.correlation,
        "like": asked.like,
        "beta": list(base.beta),
        "pass@k": _now(base.counts, asked.ks),
        "designs": [
            {"problems": one.problems, "samples": one.samples, "seeds": one.seeds,
             "smallest": base.smallest_QK[row], "low": base.ends_2QK[0, row],
             "high": base.ends_2QK[1, row]}
            for row, one in enumerate(asked.designs)
        ],
    }  # fmt: skip


def _figure(bases: Sequence[Base]) -> Figure:
    """A row of panels per base, a panel per k."""

    def draw(path: Path) -> None:
        from sage_cli.reports.power_panels import draw_power

        draw_power(bases, path)

    return Figure("power", draw)
