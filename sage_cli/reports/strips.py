"""Strips of problems: a row of cells per method, coloured by the share of right samples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.figure import FAINT, drawing

COLOURS = "cividis"
"""Even in lightness, and the same to readers with and without colour vision deficiency."""
STRIP_IN, WIDTH_IN = 0.26, 8.2


def draw_strips(panels: Mapping[str, Mapping[str, FloatArray]], stem: Path) -> None:
    """Benchmark -> method -> shares of right samples, the same problem in one column."""
    heights = [len(shares) for shares in panels.values()]
    height_in = STRIP_IN * sum(heights) + 0.62 * len(panels) + 0.5
    with drawing(stem, WIDTH_IN, height_in) as figure:
        axes_of = figure.subplots(
            len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0]
        images = [
            _draw(axes, benchmark, shares)
            for axes, (benchmark, shares) in zip(axes_of, panels.items(), strict=True)
        ]
        bar = figure.colorbar(images[-1], ax=list(axes_of), fraction=0.02, pad=0.02)
        bar.set_label("share of right samples")
        bar.outline.set_visible(False)


def _draw(axes: Any, benchmark: str, shares: Mapping[str, FloatArray]) -> Any:
    share_MP = np.stack(list(shares.values()))
    cells = axes.imshow(
        share_MP, aspect="auto", interpolation="nearest", cmap=mpl.colormaps[COLOURS],
        vmin=0, vmax=1,
    )  # fmt: skip
    never_method, never_problem = np.nonzero(share_MP == 0)
    axes.plot(never_problem, never_method, "x", color="#ffffff", markersize=2.2, mew=0.6)
    axes.set_title(benchmark)
    axes.set_yticks(range(len(shares)), list(shares))
    axes.set_xticks([])
    axes.grid(visible=False)
    for y in np.arange(0.5, len(shares) - 1):
        axes.axhline(y, color="white", linewidth=1.5)
    axes.set_xlabel(f"{share_MP.shape[1]} problems, the base's rarest on the left", color=FAINT)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.tick_params(length=0)
    return cells
