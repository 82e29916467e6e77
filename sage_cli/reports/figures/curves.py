"""Figures of curves over k, with their bands and paired differences."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from sage_cli.metrics import Curve, Difference, powers_up_to
from sage_cli.reports.figures.legend import Legend, series_of
from sage_cli.reports.figures.style import INK, drawing, say

TITLE_CHARACTERS = 40
"""The length of a line of a panel's title."""
PANEL_IN = (4.6, 3.2)
DIFFERENCE_IN = 1.7
"""Height of a panel with a difference."""
SPARSE = 12
"""With at most this many ks, each is marked."""
ALPHA, ALL_BANDS = 0.13, 0.6
"""Opacity of a band, and of all bands together where they overlap."""
_PATH = re.compile(r"(?:[^\s,]*?(?P<folder>[\w-]+)/)?(?P<name>[\w-]+)\.(?:jsonl?|csv|parquet)\b")
"""A file of problems as a benchmark is named by it."""


def without_paths(title: str) -> str:
    """Return a title in which files are called by their folder and name: `smollm2 test`."""
    return _PATH.sub(lambda file: " ".join(filter(None, file.group("folder", "name"))), title)


def draw_curves(
    panels: Mapping[str, Mapping[str, Curve]],
    stem: Path,
    *,
    differences: Mapping[str, Difference] | None = None,
    height: str = "pass@k",
) -> None:
    """Draw benchmark -> label -> curve, with the benchmarks' paired `differences` below.

    `height` is what the curves are of.
    Differences have panels of their own because the bands of two curves may overlap although
    their paired difference is significant.
    """
    heights_in = [PANEL_IN[1], DIFFERENCE_IN][: 2 if differences else 1]
    width_in = PANEL_IN[0] * len(panels)
    legend = Legend.from_labels(series_of(panels.values()), width_in)
    with drawing(stem, width_in, sum(heights_in) + legend.height_in) as figure:
        size, ratios = (len(heights_in), len(panels)), {"height_ratios": heights_in}
        rows = figure.subplots(*size, squeeze=False, sharex="col", gridspec_kw=ratios)
        for axes, (benchmark, curves) in zip(rows[0], panels.items(), strict=True):
            for index, (label, curve) in enumerate(curves.items()):
                aside = index - (len(curves) - 1) / 2
                alpha = min(ALPHA, ALL_BANDS / len(curves))
                _draw(axes, curve, legend.line(label), aside, alpha)
            axes.set_title(fill(without_paths(benchmark), TITLE_CHARACTERS))
            axes.set_ylim(*_limits(list(curves.values()), 0.0))
        if differences:
            for axes, (benchmark, curves) in zip(rows[1], panels.items(), strict=True):
                _draw_difference(axes, differences[benchmark], " − ".join(curves))
            rows[1][0].set_ylabel("difference")
        for axes, curves in zip(rows[-1], panels.values(), strict=True):
            _frame(axes, list(curves.values()))
        rows[0][0].set_ylabel(height)
        legend.draw(figure)


def _draw(
    axes: Any,
    curve: Curve | Difference,
    style: Mapping[str, Any],
    aside: float,
    alpha: float = ALPHA,
) -> None:
    """Draw a curve with its band; a single k is a point and a bar, moved `aside`.

    Lines are not clipped at the panel's edge, where those at 0 or 1 run.
    """
    if len(curve.ks) == 1:
        ks = [curve.ks[0] * 2 ** (0.06 * aside)]
        axes.plot(ks, curve.mean_K, marker="o", markersize=5, color=style["color"], clip_on=False)
        axes.vlines(ks, curve.low_K, curve.high_K, color=style["color"], linewidth=1.5)
        return
    marker = {"marker": "o", "markersize": 3.5} if len(curve.ks) <= SPARSE else {}
    axes.plot(curve.ks, curve.mean_K, linewidth=1.7, clip_on=False, **style, **marker)
    axes.fill_between(
        curve.ks, curve.low_K, curve.high_K, color=style["color"], alpha=alpha, linewidth=0
    )


def _draw_difference(axes: Any, difference: Difference, words: str) -> None:
    """Draw a difference with its band and a line at 0; `words` name its two sides."""
    axes.axhline(0, color=INK, linewidth=0.8)
    _draw(axes, difference, {"color": INK, "linestyle": "-"}, aside=0)
    low, high = _limits([difference], -1.0)
    axes.set_ylim(min(low, -0.01), max(high, 0.01))
    say(axes, words, (0, 1), (2, 2))


def _frame(axes: Any, curves: Sequence[Curve]) -> None:
    """Draw the axis of k below a column of panels, with a note about the bands."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    first, last = min(c.ks[0] for c in curves), max(c.ks[-1] for c in curves)
    axes.set_xscale("log", base=2)
    axes.set_xlim(first / 2**0.15, last * 2**0.15)
    powers = [k for k in powers_up_to(last) if first <= k]
    axes.xaxis.set_major_locator(FixedLocator(powers or [first]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda k, _: f"{k:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("k (samples per problem)")
    say(axes, _note(curves), (1, 0), (0, -34), ha="right", va="top")


def _limits(curves: Sequence[Curve | Difference], least: float) -> tuple[float, float]:
    """Return limits around all bands and means, within `least` and 1."""
    values = np.concatenate([part for c in curves for part in (c.low_K, c.mean_K, c.high_K)])
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    air = max(0.02, 0.04 * (high - low))
    return max(low - air, least), min(high + air, 1.0)


def _note(curves: Sequence[Curve]) -> str:
    problems = sorted({curve.problems for curve in curves})
    confidence = sorted({curve.confidence for curve in curves})
    bands = " or ".join(f"{100 * share:g}%" for share in confidence)
    count = " or ".join(map(str, problems))
    return f"{count} problems; pointwise {bands} bands"
