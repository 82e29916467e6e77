"""What a sweep leaves behind: its cells as a table, JSON, CSV and heat maps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sage_cli.reports.heatmap import Axis, draw_heatmaps
from sage_cli.reports.render import to_csv
from sage_cli.reports.table import Column, Measure, Row, Table
from sage_cli.store.atomic import write_json, write_text
from sage_cli.sweep.space import Space
from sage_cli.sweep.study import CellResult

SYMBOLS = {"tau": "τ", "rho": "ρ"}


@dataclass(frozen=True)
class SweepResult:
    """A sweep's folder, its grid, the names of its objectives and every cell's outcome."""

    folder: Path
    space: Space
    objectives: tuple[str, ...]
    cells: tuple[CellResult, ...]


def write_report(result: SweepResult) -> None:
    """Write results.json, sweep.csv and, for a grid of two parameters, heatmap.png and .svg."""
    write_json(result.folder / "results.json", as_json(result))
    write_text(result.folder / "sweep.csv", to_csv(sweep_table(result)))
    if len(result.space.keys) == 2:
        _draw(result)


def sweep_table(result: SweepResult) -> Table:
    """A row per cell with its objectives and its run, or the reason why it has none."""
    names = (*result.space.keys, *result.objectives, "run")
    rows = []
    for cell in result.cells:
        scores = cell.values or (float("nan"),) * len(result.objectives)
        numbers = map(Measure, (*cell.cell.values(), *scores))
        rows.append(Row((*numbers, cell.run or cell.reason or "")))
    title = f"sweep over {', '.join(result.space.keys)}"
    return Table(title, tuple(map(Column, names)), tuple(rows))


def as_json(result: SweepResult) -> dict[str, object]:
    """The grid and every cell's settings, objectives and run."""
    return {
        "folder": str(result.folder),
        "space": {key: list(values) for key, values in result.space.values.items()},
        "objectives": list(result.objectives),
        "cells": [
            {
                **cell.cell,
                **dict(zip(result.objectives, cell.values or (), strict=False)),
                "run": cell.run,
                "reason": cell.reason,
            }
            for cell in result.cells
        ],
    }


def _draw(result: SweepResult) -> None:
    """One heat map per objective, first parameter down, second across."""
    (down, down_values), (across, across_values) = result.space.values.items()
    shape = (len(down_values), len(across_values))
    scores = {name: np.full(shape, np.nan) for name in result.objectives}
    failed_DA = np.zeros(shape, dtype=bool)
    for cell in result.cells:
        first, second = cell.cell.values()
        place = down_values.index(first), across_values.index(second)
        failed_DA[place] = cell.values is None
        for name, value in zip(result.objectives, cell.values or (), strict=False):
            scores[name][place] = value
    draw_heatmaps(
        Axis(SYMBOLS.get(down, down), down_values),
        Axis(SYMBOLS.get(across, across), across_values),
        scores,
        failed_DA,
        result.folder / "heatmap",
    )
