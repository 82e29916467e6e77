"""Pictures of pass@k curves with bands: a panel per benchmark, k on a log2 axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.metrics import Curve, Difference
from sage_cli.reports.figures.figure import INK, drawing, lay_out, say
from sage_cli.reports.figures.legend import Legend, series_of

PANEL_IN = (4.6, 3.2)
DIFFERENCE_IN = 1.7
"""Height of a panel with a difference."""
SPARSE = 12
"""With at most this many ks, each is marked."""
ALPHA, ALL_BANDS = 0.13, 0.6
"""Opacity of a band, and of all bands together where they overlap."""
LABEL_GAP = 0.055
"""Least distance of two labels, as a share of the panel's height."""


def draw_curves(
    panels: Mapping[str, Mapping[str, Curve]],
    stem: Path,
    *,
    differences: Mapping[str, Difference] | None = None,
) -> None:
    """Draw benchmark -> label -> curve, with the benchmarks' paired `differences` below.

    A single panel names its curves beside their ends if there is room; several share a legend.
    Differences have panels of their own because the bands of two curves may overlap although
    their paired difference is significant.
    """
    labels = series_of(panels.values())
    heights_in = [PANEL_IN[1], DIFFERENCE_IN][: 2 if differences else 1]
    width_in = PANEL_IN[0] * len(panels)
    legend = Legend.of(labels, width_in)
    beside_ends = len(panels) == 1 and len(labels) * LABEL_GAP <= 1
    below_in = 0 if beside_ends else legend.height_in
    with drawing(stem, width_in, sum(heights_in) + below_in) as figure:
        size, ratios = (len(heights_in), len(panels)), {"height_ratios": heights_in}
        rows = figure.subplots(*size, squeeze=False, sharex="col", gridspec_kw=ratios)
        for axes, (benchmark, curves) in zip(rows[0], panels.items(), strict=True):
            for place, (label, curve) in enumerate(curves.items()):
                aside = place - (len(curves) - 1) / 2
                alpha = min(ALPHA, ALL_BANDS / len(curves))
                _draw(axes, curve, legend.line(label), aside, alpha)
            axes.set_title(benchmark)
            axes.set_ylim(*_limits(list(curves.values()), 0.0))
        if differences:
            for axes, (benchmark, curves) in zip(rows[1], panels.items(), strict=True):
                _draw_difference(axes, differences[benchmark], " less ".join(curves))
            rows[1][0].set_ylabel("difference")
        for axes, curves in zip(rows[-1], panels.values(), strict=True):
            _frame(axes, list(curves.values()))
        rows[0][0].set_ylabel("pass@k")
        if beside_ends:
            # laid out before labels are added: long ones widen the picture and squeeze no panel
            lay_out(figure)
            _name_ends(rows[0][0], next(iter(panels.values())), legend)
        else:
            legend.draw_lines(figure)


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
        at = [curve.ks[0] * 2 ** (0.06 * aside)]
        axes.plot(at, curve.mean_K, marker="o", markersize=5, color=style["color"], clip_on=False)
        axes.vlines(at, curve.low_K, curve.high_K, color=style["color"], linewidth=1.5)
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
    powers = [1 << bit for bit in range(last.bit_length()) if first <= 1 << bit]
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
    bands = " or ".join(f"{100 * share:g} %" for share in confidence)
    count = " or ".join(map(str, problems))
    return f"{count} problems; bands: {bands}, over problems"


def _name_ends(axes: Any, curves: Mapping[str, Curve], legend: Legend) -> None:
    """Write each label to the right of the panel, near its curve's end."""
    bottom, top = axes.get_ylim()
    right = max(curve.ks[-1] for curve in curves.values()) * 2**0.15
    ends = {name: (float(c.mean_K[-1]) - bottom) / (top - bottom) for name, c in curves.items()}
    order = sorted(ends, key=lambda name: ends[name])
    heights = separated([ends[name] for name in order], LABEL_GAP)
    for name, height in zip(order, heights, strict=True):
        colour, end = legend.styles[name]["color"], (right, bottom + ends[name] * (top - bottom))
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.7, "relpos": (0, 0.5)}
        style = {"va": "center", "ha": "left", "color": colour, "fontsize": 8.5}
        axes.annotate(
            name,
            end,
            (1.045, height),
            textcoords="axes fraction",
            annotation_clip=False,
            arrowprops={**line, "shrinkA": 1, "shrinkB": 1},
            **style,
        )


def separated(heights: Sequence[float], gap: float) -> list[float]:
    """Return ascending heights, moved least (in squares) so that neighbours are `gap` apart.

    Labels that touch become a block, which sits at the mean of its labels' heights.
    """
    blocks: list[list[float]] = []
    for height in heights:
        blocks.append([height])
        while len(blocks) > 1 and (
            _bottom(blocks[-2], gap) + gap * len(blocks[-2]) > _bottom(blocks[-1], gap)
        ):
            last = blocks.pop()
            blocks[-1] += last
    return [_bottom(block, gap) + gap * place for block in blocks for place in range(len(block))]


def _bottom(block: Sequence[float], gap: float) -> float:
    return sum(block) / len(block) - gap * (len(block) - 1) / 2
