"""The report of a sweep: its tables, and a heat map if its space is a plane of listed values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweeps.heatmap import draw_heatmaps
from sage_cli.reports.sweeps.result import Axis, SweepResult, SweepTrial, sweep_result
from sage_cli.reports.sweeps.table import sweep_tables
from sage_cli.settings.sections.sweep import Objective


def sweep_document(
    axes: Sequence[Axis],
    objectives: Sequence[Objective],
    trials: Sequence[SweepTrial],
    provenance: Provenance,
    *,
    base: SweepTrial | None = None,
    selected_on_reported: str | None = None,
    confidence: float = 0.95,
) -> Document:
    """Return the report of a sweep's trials.

    `base` is the initial policy, measured on the same problems. `selected_on_reported`
    names benchmarks that are also reported.
    """
    result = sweep_result(axes, objectives, trials, base, confidence)
    return document_of(replace(result, selected_on_reported=selected_on_reported), provenance)


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
