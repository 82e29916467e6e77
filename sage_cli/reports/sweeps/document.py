"""A sweep as a document: tables, and the pictures that its space and objectives call for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sage_cli.config.objective import Objective
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweeps.data import Axis, SweepCell, SweepResult
from sage_cli.reports.sweeps.findings import findings
from sage_cli.reports.sweeps.plain import to_data
from sage_cli.reports.sweeps.table import sweep_tables


def sweep_document(
    axes: Sequence[Axis],
    objectives: Sequence[Objective],
    cells: Sequence[SweepCell],
    provenance: Provenance,
    *,
    base: SweepCell | None = None,
    importances: Mapping[str, Mapping[str, float]] | None = None,
    selected_on_reported: str | None = None,
    confidence: float = 0.95,
) -> Document:
    """The cells with what can be said of them.

    `base` is what RL began with, measured on the same problems. `importances` has a share for each
    parameter by objective, {} where nothing is known. `selected_on_reported` names benchmarks that
    are reported too.
    """
    found = findings(objectives, cells, base, confidence)
    names = tuple(objective.name for objective in objectives)
    known = {name: shares for name, shares in (importances or {}).items() if shares}
    result = SweepResult(tuple(axes), names, tuple(cells), found, base, known, selected_on_reported)
    return document_of(result, provenance)


def document_of(result: SweepResult, provenance: Provenance) -> Document:
    """A sweep's outcome as a document."""
    tables = sweep_tables(result)
    return Document(
        name="sweep",
        title=tables[0].title,
        provenance=provenance,
        data=to_data(result),
        tables=tables,
        sheets={"sweep": tables[0]},
        figures=_figures(result),
    )


def _figures(result: SweepResult) -> tuple[Figure, ...]:
    """Those that `result` has the data for."""
    axes, cells = result.axes, result.cells
    plane = len(axes) == 2 and all(axis.key in cell.settings for cell in cells for axis in axes)
    grid = plane and all(axis.values is not None for axis in axes)
    wanted = {
        "heatmap": grid,
        "surface": plane and not grid and all(axis.is_number for axis in axes),
        "slices": bool(axes) and not grid and bool(result.done),
        "pareto": len(result.objectives) == 2 and bool(result.done),
        "importance": bool(result.importances),
    }
    return tuple(Figure(stem, _drawer(result, stem)) for stem, wants in wanted.items() if wants)


def _drawer(result: SweepResult, stem: str) -> Callable[[Path], object]:
    def draw(path: Path) -> object:
        from sage_cli.reports.sweeps.pictures import PICTURES

        return PICTURES[stem](result, path)

    return draw
