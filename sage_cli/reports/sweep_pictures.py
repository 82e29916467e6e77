"""The pictures of a sweep by the stem of their files; importing this loads matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from sage_cli.reports.heatmap import draw_heatmaps
from sage_cli.reports.importance import draw_importances
from sage_cli.reports.pareto import draw_pareto
from sage_cli.reports.slices import draw_slices
from sage_cli.reports.surface import draw_surfaces
from sage_cli.reports.sweep_data import SweepResult

PICTURES: Mapping[str, Callable[[SweepResult, Path], object]] = {
    "heatmap": draw_heatmaps,
    "surface": draw_surfaces,
    "slices": draw_slices,
    "pareto": draw_pareto,
    "importance": draw_importances,
}
