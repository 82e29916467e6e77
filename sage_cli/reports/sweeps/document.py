"""The report of a sweep: its tables, and the pictures that fit its space and objectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from sage_cli.reports.document import Document, Figure
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweeps.data import Axis, SweepResult, SweepTrial
from sage_cli.reports.sweeps.findings import sweep_result
from sage_cli.reports.sweeps.heatmap import draw_heatmaps
from sage_cli.reports.sweeps.learning import draw_learning
from sage_cli.reports.sweeps.parallel import draw_parallel, fits_parallel
from sage_cli.reports.sweeps.pareto import draw_pareto
from sage_cli.reports.sweeps.slices import draw_importances, draw_slices
from sage_cli.reports.sweeps.surface import draw_surfaces
from sage_cli.reports.sweeps.table import sweep_tables
from sage_cli.settings.objective import Objective


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
    axes, trials = result.space, result.trials
    plane = len(axes) == 2 and all(axis.key in trial.settings for trial in trials for axis in axes)
    grid = plane and all(axis.values is not None for axis in axes)
    ranges = plane and not grid and all(axis.is_number for axis in axes)
    pictures = (
        ("heatmap", draw_heatmaps, grid),
        ("surface", draw_surfaces, ranges),
        ("parallel", draw_parallel, fits_parallel(axes, result)),
        ("slices", draw_slices, axes and not grid and result.done),
        ("pareto", draw_pareto, len(result.objectives) == 2 and result.done),
        ("importance", draw_importances, result.importances),
        ("learning", draw_learning, any(trial.curve for trial in trials)),
    )
    return tuple(Figure(stem, partial(draw, result)) for stem, draw, fits in pictures if fits)
