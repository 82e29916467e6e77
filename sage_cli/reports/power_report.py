"""Picture of the smallest detectable changes against the number of problems: a panel per k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.metrics import Counts, pass_at_k
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.power import POWER, Design, Population, resampled_changes, smallest_changes
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures import COLOURS, DASHES, FAINT, drawing, logarithmic
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables import Column, Estimate, Row, Table, columns

PANEL_IN = (2.9, 2.5)
LEGEND_IN = 1.9
"""Width of an entry of the legend."""


def draw_power(bases: Sequence[Base], stem: Path) -> None:
    """Draw a row per base, a panel per k; colours are samples, dashes seeds.

    Both axes are logarithmic: a line falls by half when problems are four times as many.
    """
    from matplotlib.lines import Line2D

    question = bases[0].question
    designs = [design for base in bases for design in base.question.designs]
    problems = sorted({design.problems for design in designs})
    samples = sorted({design.samples for design in designs})
    seeds = sorted({design.seeds for design in designs})
    kinds: dict[tuple[int, int], dict[str, Any]] = {
        (n, s): {
            "color": COLOURS[colour % len(COLOURS)],
            "linestyle": DASHES[dash % len(DASHES)],
            **{"linewidth": 1.5, "marker": "o", "markersize": 3},
        }
        for colour, n in enumerate(samples)
        for dash, s in enumerate(seeds)
    }
    width_in = max(PANEL_IN[0] * len(question.ks), 4.5)
    with drawing(stem, width_in, PANEL_IN[1] * len(bases) + 0.5) as figure:
        rows = figure.subplots(
            len(bases), len(question.ks), squeeze=False, sharex=True, sharey=True
        )
        for row, base in zip(rows, bases, strict=True):
            for place, (axes, k) in enumerate(zip(row, question.ks, strict=True)):
                lines = {kind: _line(base, place, *kind) for kind in kinds}
                for kind, (at, smallest) in lines.items():
                    axes.plot(at, smallest, **kinds[kind])
                _frame(axes, k, problems)
                if not any(at for at, _ in lines.values()):
                    _say(axes, f"no {question.change} could be seen", (0.5, 0.5), ha="center")
            row[0].set_ylabel(f"smallest {question.change}")
            if len(bases) > 1:
                _say(row[0], f"{base.label} on {base.benchmark}", (0, 1.16))
        for axes in rows[-1]:
            axes.set_xlabel("problems")
        rows[0][0].set_ylim(*_limits(bases))
        handles = [Line2D([], [], **style) for style in kinds.values()]
        labels = [
            f"{n} samples" + (f" x {s} seed{'s' if s > 1 else ''}" if len(seeds) > 1 else "")
            for n, s in kinds
        ]
        columns = max(1, min(len(labels), int(width_in / LEGEND_IN)))
        figure.legend(handles, labels, loc="outside lower center", ncols=columns)


def _line(base: Base, place: int, samples: int, seeds: int) -> tuple[list[int], list[float]]:
    """Return problems and smallest changes at one k, for designs with a defined change."""
    changes = {
        design.problems: float(base.smallest_QK[row, place])
        for row, design in enumerate(base.question.designs)
        if (design.samples, design.seeds) == (samples, seeds)
    }
    known = sorted(problems for problems, value in changes.items() if not np.isnan(value))
    return known, [changes[problems] for problems in known]


def _frame(axes: Any, k: int, problems: Sequence[int]) -> None:
    """Set a panel's title and logarithmic axes, with a tick at each number of problems."""
    from matplotlib.ticker import FixedLocator

    axes.set_title(f"pass@{k}")
    logarithmic(axes, "x")
    logarithmic(axes, "y", (1, 2, 5))
    axes.xaxis.set_major_locator(FixedLocator(problems))
    axes.set_xlim(problems[0] / 1.15, problems[-1] * 1.15)


def _limits(bases: Sequence[Base]) -> tuple[float, float]:
    """Return the nearest of 1, 2, 5 times a power of ten below and above all changes."""
    known = np.concatenate([base.smallest_QK[~np.isnan(base.smallest_QK)] for base in bases])
    if not known.size:
        return 0.01, 1.0
    marks = np.multiply.outer(10.0 ** np.arange(-8, 1), [1, 2, 5]).ravel()
    return float(marks[marks < known.min()][-1]), float(marks[marks > known.max()][0])


def _say(axes: Any, words: str, place: tuple[float, float], **style: Any) -> None:
    axes.text(*place, words, transform=axes.transAxes, fontsize=8, color=FAINT, **style)


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
    """Return the report: a table per base and a picture of all.

    The bases' questions differ in designs and correlations at most.
    """
    question, tables = bases[0].question, tuple(map(power_table, bases))
    names = [Path(base.label).stem for base in bases]
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
            "power" if len(bases) == 1 else f"power-{name}-{Path(base.benchmark).stem}": table
            for name, base, table in zip(names, bases, tables, strict=True)
        },
        figures=(Figure("power", partial(draw_power, bases)),),
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
