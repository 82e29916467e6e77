"""A panel for each parameter of a sweep: objectives against it, and its importance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.reports.figures.figure import COLOURS, FAINT, INK, drawing, say
from sage_cli.reports.sweeps.data import SYMBOLS, SweepResult
from sage_cli.reports.sweeps.marks import INDISTINGUISHABLE, WITHOUT, WORSE, legend, mark, states_of
from sage_cli.reports.sweeps.scale import Scale
from sage_cli.reports.sweeps.winner import short_note

PANEL_IN = (2.9, 2.3)
BELOW = 0.035
"""Height of the marks of trials without a value, as a share of the panel's."""
ROW_IN, IMPORTANCE_IN = 0.34, 2.9


def draw_slices(result: SweepResult, stem: Path) -> None:
    """Draw a row per objective, a column per parameter.

    Points that are indistinguishable from the best have a ring, unless all are; if the noise is
    unknown, those with the highest value. Trials without a value stand at the bottom. The points of
    a single parameter are joined by a line.
    """
    scales = [Scale(axis, result.trials) for axis in result.space]
    rows, columns = len(result.objectives), len(scales)
    width_in = PANEL_IN[0] * columns if columns > 1 else 4.6
    with drawing(stem, width_in, PANEL_IN[1] * rows + 0.5) as figure:
        panels = figure.subplots(rows, columns, squeeze=False, sharey="row", sharex="col")
        for row, objective in zip(panels, result.objectives, strict=True):
            for axes, scale in zip(row, scales, strict=True):
                _draw(axes, result, objective, scale, last=axes is row[-1])
            row[0].set_ylabel(objective)
            row[0].margins(y=0.1)
            note = _note(result, objective)
            row[0].set_title(note, fontsize=7, color=FAINT, fontweight="normal")
        for axes, scale in zip(panels[-1], scales, strict=True):
            axes.set_xlabel(scale.axis.label)
            axes.set_xlim(*scale.ends)
            scale.mark(axes.xaxis)
        ringed = [_ringed(result, objective) for objective in result.objectives]
        words = {"best": INDISTINGUISHABLE if result.rankings else "best"} if any(ringed) else {}
        if any(len(rings) < len(result.done) for rings in ringed):
            words["worse"] = "other trials" if any(ringed) else "trials"
        legend(figure, words | states_of(result), 3 if columns <= 2 else 6)


def _draw(axes: Any, result: SweepResult, objective: str, scale: Scale, last: bool) -> None:
    """Draw the trials that have this parameter, and the base as a line, named at the `last`."""
    ringed = _ringed(result, objective)
    if result.base is not None and result.base.values is not None:
        height = result.base.values[objective]
        axes.axhline(height, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        if last:
            style = {"xycoords": ("axes fraction", "data"), "va": "center", "color": INK}
            say(axes, "base", (1, height), (3, 0), fontsize=8, annotation_clip=False, **style)
    there = [
        (scale.place(setting), value, place)
        for place, value in result.value_at(objective).items()
        if (setting := result.trials[place].settings.get(scale.axis.key)) is not None
    ]
    if len(result.space) == 1 and scale.axis.is_number:
        points = np.array([(x, y) for x, y, _ in sorted(there)]).reshape(-1, 2)
        axes.plot(*points.T, color=WORSE, linewidth=1.2, zorder=2)
    for x, y, place in there:
        if (intervals := result.trials[place].intervals) is not None:
            axes.vlines(x, *intervals[objective], color=FAINT, linewidth=0.8, alpha=0.6, zorder=2)
        mark(axes, x, y, "worse", zorder=3)
        if place in ringed:
            mark(axes, x, y, "best", zorder=4)
    for trial in result.trials:
        if trial.state in WITHOUT and scale.axis.key in trial.settings:
            x = scale.place(trial.settings[scale.axis.key])
            mark(axes, x, BELOW, trial.state, transform=axes.get_xaxis_transform(), zorder=3)


def _ringed(result: SweepResult, objective: str) -> frozenset[int]:
    """Return the places of the trials that may be the best; none if that would be all."""
    value_at = result.value_at(objective)
    highest = (place for place, value in value_at.items() if value == max(value_at.values()))
    ringed = result.indistinguishable(objective) or frozenset(highest)
    return ringed if len(ringed) < len(value_at) else frozenset()


def _note(result: SweepResult, objective: str) -> str:
    if not result.rankings:
        return "noise unknown"
    nothing = len(result.done) > 1 and not _ringed(result, objective)
    rings = "all trials are indistinguishable from the best" if nothing else ""
    return "\n".join(filter(None, (rings, short_note(result, objective))))


def draw_importances(result: SweepResult, stem: Path) -> None:
    """Draw a panel per objective: shares with their intervals, grey where no effect is seen."""
    found = result.importances
    first = next(iter(found.values()))
    named = dict.fromkeys(name for effects in found.values() for name in effects)
    names = sorted(named, key=lambda name: first[name].p if name in first else 1.0)
    with drawing(stem, IMPORTANCE_IN * len(found) + 0.8, ROW_IN * len(names) + 1.0) as figure:
        panels = figure.subplots(1, len(found), squeeze=False, sharey=True)[0]
        for axes, (objective, effects) in zip(panels, found.items(), strict=True):
            axes.set_title(objective)
            axes.set_xlabel("share of the ranks' variance")
            axes.set_xlim(0, 1)
            axes.grid(visible=False, axis="y")
            axes.tick_params(axis="y", length=0)
            for row, name in enumerate(names):
                if (one := effects.get(name)) is None:
                    continue
                colour = COLOURS[0] if one.seen else FAINT
                axes.hlines(row, one.low, one.high, color=colour, linewidth=1.6, clip_on=False)
                axes.plot([one.share], [row], marker="o", color=colour, clip_on=False)
                if not one.seen:
                    words = {"ha": "right", "va": "bottom", "fontsize": 7, "color": FAINT}
                    axes.text(1, row - 0.08, "no effect seen", **words)
        panels[0].set_yticks(range(len(names)), [SYMBOLS.get(name, name) for name in names])
        panels[0].set_ylim(len(names) - 0.5, -0.6)
