"""A sweep as a document: its cells as a table, and as heat maps where two settings vary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.table import Cell, Column, Measure, Row, Table

Value = float | str
SYMBOLS = {"tau": "τ", "rho": "ρ"}


@dataclass(frozen=True)
class SweepCell:
    """A cell's settings (key -> value, in the grid's order), and its scores or why it has none."""

    settings: Mapping[str, Value]
    scores: tuple[float, ...] | None
    run: str | None
    reason: str | None = None


def sweep_document(
    space: Mapping[str, Sequence[Value]],
    objectives: Sequence[str],
    cells: Sequence[SweepCell],
    provenance: Provenance,
) -> Document:
    """The cells of `space` (short name -> values) with a score per objective."""
    table = sweep_table(list(space), objectives, cells)
    return Document(
        name="sweep",
        title=table.title,
        provenance=provenance,
        data={
            "space": {name: list(values) for name, values in space.items()},
            "objectives": list(objectives),
            "cells": [
                {
                    **cell.settings,
                    **dict(zip(objectives, cell.scores or (), strict=False)),
                    "run": cell.run,
                    "reason": cell.reason,
                }
                for cell in cells
            ],
        },
        tables=(table,),
        sheets={"sweep": table},
        figures=(_heatmap(space, objectives, cells),) if len(space) == 2 else (),
    )


def sweep_table(
    names: Sequence[str], objectives: Sequence[str], cells: Sequence[SweepCell]
) -> Table:
    """A row per cell with its objectives and its run, or the reason why it has none."""
    rows = []
    for cell in cells:
        scores = cell.scores or (math.nan,) * len(objectives)
        settings = map(_setting, cell.settings.values())
        rows.append(Row((*settings, *map(Measure, scores), cell.run or cell.reason or "")))
    columns = tuple(map(Column, (*names, *objectives, "run")))
    return Table(f"sweep over {', '.join(names)}", columns, tuple(rows))


def _setting(value: Value) -> Cell:
    return value if isinstance(value, str) else Measure(value)


def _heatmap(
    space: Mapping[str, Sequence[Value]], objectives: Sequence[str], cells: Sequence[SweepCell]
) -> Figure:
    """One panel per objective, first parameter down, second across."""
    (down, down_values), (across, across_values) = space.items()
    shape = (len(down_values), len(across_values))
    scores = {name: np.full(shape, np.nan) for name in objectives}
    failed_DA = np.zeros(shape, dtype=bool)
    for cell in cells:
        first, second = cell.settings.values()
        place = down_values.index(first), across_values.index(second)
        failed_DA[place] = cell.scores is None
        for name, value in zip(objectives, cell.scores or (), strict=False):
            scores[name][place] = value

    def draw(path: Path) -> None:
        from sage_cli.reports.heatmap import Axis, draw_heatmaps

        draw_heatmaps(
            Axis(SYMBOLS.get(down, down), tuple(down_values)),
            Axis(SYMBOLS.get(across, across), tuple(across_values)),
            scores,
            failed_DA,
            path,
        )

    return Figure("heatmap", draw)
