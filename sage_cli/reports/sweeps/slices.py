"""An objective against each parameter of a sweep: a panel for each pair of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.reports.figure import FAINT, INK, drawing, outputs
from sage_cli.reports.sweeps.data import SweepCell, SweepResult
from sage_cli.reports.sweeps.marks import NOT_TOLD, WITHOUT, WORSE, legend, mark, states_of
from sage_cli.reports.sweeps.scale import Scale

PANEL_IN = (2.9, 2.3)
BELOW = 0.035
"""Height of the marks of cells without a value, as a share of the panel's."""


def draw_slices(result: SweepResult, stem: Path) -> tuple[Path, Path]:
    """Draw a row per objective, a column per parameter; returns the PNG's and the SVG's path.

    Points have their intervals. Those that can't be told apart from the best have a ring, unless
    none can; where the noise isn't known, those with the highest value. Cells without a value stand
    at the bottom. One parameter alone has a line through its points.
    """
    scales = [Scale(axis, result.cells) for axis in result.axes]
    rows, columns = len(result.objectives), len(scales)
    width_in = PANEL_IN[0] * columns if columns > 1 else 4.6
    with drawing(stem, width_in, PANEL_IN[1] * rows + 0.5) as figure:
        panels = figure.subplots(rows, columns, squeeze=False, sharey="row", sharex="col")
        for row, objective in zip(panels, result.objectives, strict=True):
            for axes, scale in zip(row, scales, strict=True):
                _draw(axes, result, objective, scale, last=axes is row[-1])
            row[0].set_ylabel(objective)
            row[0].margins(y=0.1)
            row[0].set_title(
                _remark(result, objective), fontsize=7, color=FAINT, fontweight="normal"
            )
        for axes, scale in zip(panels[-1], scales, strict=True):
            axes.set_xlabel(scale.axis.label)
            axes.set_xlim(*scale.ends)
            scale.mark(axes.xaxis)
        ringed = [_ringed(result, objective) for objective in result.objectives]
        words = {"best": NOT_TOLD if result.findings.rankings else "best"} if any(ringed) else {}
        if any(len(rings) < len(result.done) for rings in ringed):
            words["worse"] = "other cells" if any(ringed) else "cells"
        legend(figure, words | states_of(result), 3 if columns <= 2 else 6)
    return outputs(stem)


def _draw(axes: Any, result: SweepResult, objective: str, scale: Scale, last: bool) -> None:
    """The cells that have this parameter, and the base as a line across, named at the `last`."""
    which, ringed = result.objectives.index(objective), _ringed(result, objective)
    if result.base is not None and result.base.values is not None:
        height = result.base.values[which]
        axes.axhline(height, color=INK, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1)
        if last:
            axes.annotate(
                "base", (1, height), (3, 0), xycoords=("axes fraction", "data"),
                textcoords="offset points", va="center", fontsize=8, annotation_clip=False,
            )  # fmt: skip
    there = [
        (scale.place(cell.settings[scale.axis.key]), values[which], place)
        for place, cell, values in result.done
        if scale.axis.key in cell.settings
    ]
    if len(result.axes) == 1 and scale.axis.is_number:
        points = np.array([(x, y) for x, y, _ in sorted(there)]).reshape(-1, 2)
        axes.plot(*points.T, color=WORSE, linewidth=1.2, zorder=2)
    for x, y, place in there:
        if (ends := result.interval(place, objective)) is not None:
            axes.vlines(x, *ends, color=FAINT, linewidth=0.8, alpha=0.6, zorder=2)
        mark(axes, x, y, "worse", zorder=3)
        if place in ringed:
            mark(axes, x, y, "best", zorder=4)
    for cell in result.cells:
        if cell.state in WITHOUT and scale.axis.key in cell.settings:
            _below(axes, cell, scale)


def _below(axes: Any, cell: SweepCell, scale: Scale) -> None:
    """A cell without a value, at the bottom whatever the panel's heights are."""
    x = scale.place(cell.settings[scale.axis.key])
    mark(axes, x, BELOW, cell.state, transform=axes.get_xaxis_transform(), zorder=3)


def _ringed(result: SweepResult, objective: str) -> frozenset[int]:
    """Places of the cells that may be the best; none where that says nothing of any."""
    which = result.objectives.index(objective)
    value_at = {place: values[which] for place, _, values in result.done}
    highest = (place for place, value in value_at.items() if value == max(value_at.values()))
    ringed = result.alike(objective) or frozenset(highest)
    return ringed if len(ringed) < len(value_at) else frozenset()


def _remark(result: SweepResult, objective: str) -> str:
    """What is to be known of an objective's rings."""
    if not result.findings.rankings:
        return "noise unknown"
    nothing = len(result.done) > 1 and not _ringed(result, objective)
    return "no cell can be told apart from the best" if nothing else ""
