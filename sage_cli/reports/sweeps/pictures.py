"""The pictures of a sweep by the stem of their files; importing this loads matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from sage_cli.reports.sweeps.data import SweepResult
from sage_cli.reports.sweeps.heatmap import draw_heatmaps
from sage_cli.reports.sweeps.importance import draw_importances
from sage_cli.reports.sweeps.pareto import draw_pareto
from sage_cli.reports.sweeps.slices import draw_slices
from sage_cli.reports.sweeps.surface import draw_surfaces

PICTURES: Mapping[str, Callable[[SweepResult, Path], object]] = {
    "heatmap": draw_heatmaps,
    "surface": draw_surfaces,
    "slices": draw_slices,
    "pareto": draw_pareto,
    "importance": draw_importances,
}
