"""Parallel coordinates of a sweep: an axis per parameter and objective, a line per trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.reports.figures.figure import FAINT, INK, drawing, say
from sage_cli.reports.sweeps.data import Axis, SweepResult
from sage_cli.reports.sweeps.heatmap import LEAST_SPAN
from sage_cli.reports.sweeps.marks import BEST, colour_bar, region_of_interest, value_scale
from sage_cli.reports.sweeps.scale import Scale

GAP_IN, HEIGHT_IN = 1.7, 3.2


def draw_parallel(result: SweepResult, stem: Path) -> None:
    """Draw the measured trials; colours are values of the first objective, the best is on top.

    A trial without one of the parameters has a gap there.
    """
    trials = tuple(result.done.values())
    value_MO = np.array([[*result.value_at(name).values()] for name in result.objectives]).T
    scales = [Scale(axis, trials) for axis in result.space]
    columns = [_placed(scale, trials) for scale in scales]
    columns += [_between(value_MO[:, o], *_ends(value_MO[:, o])) for o in range(value_MO.shape[1])]
    place_MA = np.array(columns).T
    region = region_of_interest(value_MO[:, 0].tolist(), value_MO[:, 0].max(), LEAST_SPAN / 5)
    colour = value_scale(region)
    first = result.best(result.objectives[0])
    best = None if first is None else [*result.done].index(first)
    with drawing(stem, GAP_IN * len(columns) + 1.2, HEIGHT_IN) as figure:
        axes = figure.subplots()
        across = range(len(columns))
        for row in np.argsort(value_MO[:, 0], kind="stable"):
            style = {"color": colour.to_rgba(value_MO[row, 0]), "linewidth": 1.1, "alpha": 0.85}
            if row == best:
                style = {"color": BEST, "linewidth": 2.4, "zorder": 5, "label": "best"}
            axes.plot(across, place_MA[row], clip_on=False, **style)
        _frame(axes, result)
        for column, scale in enumerate(scales):
            _ticks(axes, column, _tick_labels(scale))
        for o in range(len(result.objectives)):
            ends = _ends(value_MO[:, o])
            _ticks(axes, len(scales) + o, [(0.0, f"{ends[0]:.3f}"), (1.0, f"{ends[1]:.3f}")])
        colour_bar(figure, axes, region, pad=0.06).set_label(result.objectives[0])
        figure.legend(loc="outside lower center")


def _placed(scale: Scale, trials: Any) -> Any:
    """Return the trials' places on a parameter's axis, from 0 to 1; NaN without the parameter."""
    low, high = scale.ends
    key = scale.axis.key
    places = [scale.place(t.settings[key]) if key in t.settings else np.nan for t in trials]
    return _between(np.array(places), low, high)


def _between(place_M: Any, low: float, high: float) -> Any:
    return (place_M - low) / (high - low)


def _ends(value_M: Any) -> tuple[float, float]:
    """Return the least and the highest value, apart from each other."""
    low, high = float(value_M.min()), float(value_M.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _frame(axes: Any, result: SweepResult) -> None:
    names = [axis.label for axis in result.space] + list(result.objectives)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.set_yticks([])
    axes.set_ylim(0, 1)
    axes.set_xlim(-0.25, len(names) - 0.75)
    axes.set_xticks(range(len(names)), names)
    axes.tick_params(axis="x", length=0)
    for column in range(len(names)):
        axes.axvline(column, color=INK, linewidth=0.8, zorder=0.5)
    say(axes, "a line is a trial", (0, 1), (2, 4))


def _tick_labels(scale: Scale) -> list[tuple[float, str]]:
    """Return the ticks of a parameter's axis as (place from 0 to 1, words)."""
    from matplotlib.figure import Figure

    low, high = scale.ends
    blank = Figure().subplots()
    blank.set_ylim(low, high)
    scale.mark(blank.yaxis)
    labels = blank.yaxis.get_majorticklabels()
    places = blank.yaxis.get_majorticklocs()
    ticks = zip(places, labels, strict=True)
    return [((at - low) / (high - low), one.get_text()) for at, one in ticks if low <= at <= high]


def _ticks(axes: Any, column: int, ticks: list[tuple[float, str]]) -> None:
    for place, words in ticks:
        # white behind the words: lines of trials cross them
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.8}
        style = {"ha": "right", "va": "center", "fontsize": 7, "color": FAINT, "bbox": box}
        axes.annotate(
            words, (column, place), (-4, 0), textcoords="offset points", zorder=6, **style
        )
        axes.plot([column], [place], marker="_", color=INK, markersize=5, clip_on=False)


def fits_parallel(axes: tuple[Axis, ...], result: SweepResult) -> bool:
    """Return True for two parameters or more and two measured trials or more."""
    return len(axes) > 1 and len(result.done) > 1
