"""A sweep as a document: its cells as a table, and as heat maps where two settings vary."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from sage_cli.metrics import Counts
from sage_cli.metrics.ranking import Ranking, rank
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.table import Cell, Column, Measure, Row, Table

Value = float | str
SYMBOLS = {"tau": "τ", "rho": "ρ"}


@dataclass(frozen=True)
class SweepCell:
    """A cell's settings (key -> value, in the grid's order), and its scores or why it has none.

    `counts` are those behind the scores, where they are still stored.
    """

    settings: Mapping[str, Value]
    scores: tuple[float, ...] | None
    run: str | None
    reason: str | None = None
    counts: Counts | None = None


def sweep_document(
    space: Mapping[str, Sequence[Value]],
    objectives: Sequence[str],
    cells: Sequence[SweepCell],
    provenance: Provenance,
) -> Document:
    """The cells of `space` (short name -> values) with a score per objective."""
    rankings = _rankings(objectives, cells)
    table = sweep_table(list(space), objectives, cells, rankings)
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
            "rankings": {name: asdict(one) for name, one in rankings.items()},
        },
        tables=(table,),
        sheets={"sweep": table},
        figures=(_heatmap(space, objectives, cells, rankings),) if len(space) == 2 else (),
    )


def _rankings(objectives: Sequence[str], cells: Sequence[SweepCell]) -> dict[str, Ranking]:
    """By objective, which of `cells` (by place) may be as good as the best; {} without counts."""
    found = [place for place, cell in enumerate(cells) if cell.scores is not None]
    counts = [one for place in found if (one := cells[place].counts) is not None]
    if not counts or len(counts) < len(found):
        return {}
    ranked = {name: rank(counts, int(name.removeprefix("pass@"))) for name in objectives}
    return {
        name: replace(one, best=found[one.best], alike=tuple(found[place] for place in one.alike))
        for name, one in ranked.items()
    }


def sweep_table(
    names: Sequence[str],
    objectives: Sequence[str],
    cells: Sequence[SweepCell],
    rankings: Mapping[str, Ranking],
) -> Table:
    """A row per cell with its objectives and its run, or the reason why it has none."""
    rows = []
    for cell in cells:
        scores = cell.scores or (math.nan,) * len(objectives)
        settings = map(_setting, cell.settings.values())
        rows.append(Row((*settings, *map(Measure, scores), cell.run or cell.reason or "")))
    columns = tuple(map(Column, (*names, *objectives, "run")))
    notes = tuple(_note(name, one, cells) for name, one in rankings.items())
    return Table(f"sweep over {', '.join(names)}", columns, tuple(rows), notes)


def _note(objective: str, ranking: Ranking, cells: Sequence[SweepCell]) -> str:
    done = sum(cell.scores is not None for cell in cells)
    others = f"{len(ranking.alike) - 1} of {done - 1} others"
    return (
        f"{objective}: best is {cells[ranking.best].run}, and {others} can't be told apart from it "
        f"({100 * ranking.confidence:g} %, all pairs together; {_noise(ranking)})"
    )


def _noise(ranking: Ranking) -> str:
    if math.isnan(ranking.error):
        return "no two cells differ"
    return f"standard error of a difference: {ranking.error:.3f}"


def _setting(value: Value) -> Cell:
    return value if isinstance(value, str) else Measure(value)


def _heatmap(
    space: Mapping[str, Sequence[Value]],
    objectives: Sequence[str],
    cells: Sequence[SweepCell],
    rankings: Mapping[str, Ranking],
) -> Figure:
    """One panel per objective, first parameter down, second across."""
    (down, down_values), (across, across_values) = space.items()
    shape = (len(down_values), len(across_values))
    scores = {name: np.full(shape, np.nan) for name in objectives}
    failed_DA = np.zeros(shape, dtype=bool)
    alike_DA = {name: np.zeros(shape, dtype=bool) for name in rankings}
    for number, cell in enumerate(cells):
        first, second = cell.settings.values()
        place = down_values.index(first), across_values.index(second)
        failed_DA[place] = cell.scores is None
        for name, one in rankings.items():
            alike_DA[name][place] = number in one.alike
        for name, value in zip(objectives, cell.scores or (), strict=False):
            scores[name][place] = value

    def draw(path: Path) -> None:
        from sage_cli.reports.heatmap import Alike, Axis, draw_heatmaps

        alike = {
            name: Alike(alike_DA[name], f"{100 * one.confidence:g} %, {_noise(one)}")
            for name, one in rankings.items()
        }
        draw_heatmaps(
            Axis(SYMBOLS.get(down, down), tuple(down_values)),
            Axis(SYMBOLS.get(across, across), tuple(across_values)),
            scores,
            failed_DA,
            path,
            alike,
        )

    return Figure("heatmap", draw)
