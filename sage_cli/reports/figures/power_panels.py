"""Picture of the smallest detectable changes against the number of problems: a panel per k."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sage_cli.reports.figures.figure import COLOURS, DASHES, FAINT, drawing, logarithmic

if TYPE_CHECKING:
    from sage_cli.reports.power import Base

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
