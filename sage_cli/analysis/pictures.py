"""Pictures of analyses: matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.document import Figure
from sage_cli.reports.table import Measure


def dots(
    stem: str,
    panels: Mapping[str, Mapping[str, Mapping[str, Measure]]],
    axis: str,
    *,
    zero: bool = False,
) -> Figure:
    """Panel -> row -> policy -> value, as points with intervals; `zero` draws a line there."""

    def draw(path: Path) -> None:
        from sage_cli.reports.dots import draw_dots

        draw_dots(panels, axis, path, zero=zero)

    return Figure(stem, draw)


def tails(stem: str, panels: Mapping[str, Mapping[str, FloatArray]], axis: str) -> Figure:
    """Panel -> policy -> values, as shares above a value."""

    def draw(path: Path) -> None:
        from sage_cli.reports.tails import draw_tails

        draw_tails(panels, axis, path)

    return Figure(stem, draw)


def strips(stem: str, panels: Mapping[str, Mapping[str, FloatArray]]) -> Figure:
    """Panel -> policy -> share of right samples per problem, as strips."""

    def draw(path: Path) -> None:
        from sage_cli.reports.strips import draw_strips

        draw_strips(panels, path)

    return Figure(stem, draw)


def scatters(
    stem: str,
    panels: Mapping[str, Mapping[str, tuple[FloatArray, FloatArray]]],
    axes_names: tuple[str, str],
) -> Figure:
    """Panel -> policy -> two numbers of each problem."""

    def draw(path: Path) -> None:
        from sage_cli.reports.scatters import draw_scatters

        draw_scatters(panels, axes_names, path)

    return Figure(stem, draw)


def steps(
    stem: str,
    panels: Mapping[str, Mapping[str, tuple[FloatArray, FloatArray]]],
    points: Mapping[str, Mapping[str, tuple[FloatArray, FloatArray]]],
) -> Figure:
    """Quantity -> run -> (steps, values), lines and marked points."""

    def draw(path: Path) -> None:
        from sage_cli.reports.steps import draw_steps

        draw_steps(panels, points, path)

    return Figure(stem, draw)
