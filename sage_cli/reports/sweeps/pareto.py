"""Two objectives of a sweep against each other, with the Pareto front."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sage_cli.reports.figures.figure import FAINT, INK, drawing
from sage_cli.reports.sweeps.data import SweepResult, SweepTrial
from sage_cli.reports.sweeps.marks import BEST, legend, mark
from sage_cli.reports.sweeps.winner import short_note

SIZE_IN = (4.8, 4.0)


def draw_pareto(result: SweepResult, stem: Path) -> None:
    """Draw the measured trials with their intervals.

    Points of the front are numbered as the table's trials are.
    """
    front, rankings = result.front, result.rankings
    best, alike = (front.best, front.indistinguishable) if front else ((), ())
    across, up = result.objectives
    value_at = result.value_at(up)
    point = {place: (x, value_at[place]) for place, x in result.value_at(across).items()}
    with drawing(stem, *SIZE_IN) as figure:
        axes = figure.subplots()
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.margins(0.1)
        for place, (x, y) in point.items():
            kind = "alike" if place in alike and rankings else "worse"
            _crossed(axes, (x, y), result.trials[place], result, FAINT)
            mark(axes, x, y, "front" if place in best else kind, zorder=3)
        _stairs(axes, sorted((point[place] for place in best), reverse=True))
        _numbers(axes, {place: point[place] for place in best})
        words = {"front": "Pareto front"}
        if rankings and set(alike) - set(best):
            words["alike"] = "indistinguishable from it"
        if set(point) - set(best if not rankings else alike):
            words["worse"] = "other trials"
        if result.base is not None and result.base.values is not None:
            x, y = (result.base.values[name] for name in result.objectives)
            _crossed(axes, (x, y), result.base, result, INK)
            mark(axes, x, y, "base", zorder=4)
            words["base"] = "base"
        axes.set_title(_note(result), fontsize=7, color=FAINT, fontweight="normal")
        legend(figure, words, 4)


def _note(result: SweepResult) -> str:
    if not result.rankings:
        return "noise unknown"
    notes = {name: short_note(result, name) for name in result.objectives}
    return "\n".join(f"{name}: {note}" for name, note in notes.items())


def _crossed(
    axes: Any, at: tuple[float, float], trial: SweepTrial, result: SweepResult, colour: str
) -> None:
    if trial.intervals is not None:
        wide, high = (trial.intervals[name] for name in result.objectives)
        axes.hlines(at[1], *wide, color=colour, linewidth=0.8, alpha=0.35, zorder=2)
        axes.vlines(at[0], *high, color=colour, linewidth=0.8, alpha=0.35, zorder=2)


def _stairs(axes: Any, points: list[tuple[float, ...]]) -> None:
    """Draw the edge of the region that the front dominates, from right to left."""
    if len(points) > 1:
        xs, ys = zip(*points, strict=True)
        axes.step(xs, ys, where="post", color=BEST, linewidth=1.2, alpha=0.8, zorder=1)


def _numbers(axes: Any, points: dict[int, tuple[float, ...]]) -> None:
    """Write trials' numbers beside their points; trials at equal points share a line."""
    named: dict[tuple[float, ...], list[int]] = {}
    for place, at in points.items():
        named.setdefault(at, []).append(place + 1)
    for at, numbers in named.items():
        words, style = ", ".join(map(str, numbers)), {"fontsize": 8, "color": BEST, "zorder": 6}
        axes.annotate(words, at, (5, 5), textcoords="offset points", **style)
