"""The report of a sweep: its data, tables, and heat maps."""

from __future__ import annotations

from functools import partial

from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance
from sage_cli.trials.sweep.heatmap import draw_heatmaps
from sage_cli.trials.sweep.result import SweepResult
from sage_cli.trials.sweep.result_tables import sweep_tables


def document_of(result: SweepResult, provenance: Provenance) -> Document:
    """Return the report of a sweep's results."""
    tables = sweep_tables(result)
    return Document(
        name="sweep",
        title=tables[0].title,
        provenance=provenance,
        data=vars(result),
        tables=tables,
        sheets={"sweep": tables[0]},
        figures=_figures(result),
    )


def _figures(result: SweepResult) -> tuple[Figure, ...]:
    """Return the heat map of two parameters with lists of values; other spaces have none."""
    axes = result.space
    grid = len(axes) == 2 and all(
        axis.values is not None and all(axis.key in trial.settings for trial in result.trials)
        for axis in axes
    )
    return (Figure("heatmap", partial(draw_heatmaps, result)),) if grid else ()
