"""Pictures of reports: their style, curves, panels and dots.

matplotlib is imported when one is drawn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from sage_cli.metrics import Curve, Difference, powers_up_to
from sage_cli.metrics.estimators import FloatArray
from sage_cli.reports.tables import Estimate, by_method
from sage_cli.store.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito (2008) without yellow, which vanishes on paper, and black (initial policies)."""
_GAPS = ((5, 2), (1.5, 1.5), (6, 2, 1.5, 2), (9, 2), (1, 3), (4, 1, 1, 1, 1, 1), (7, 1), (3, 3))
DASHES = ("-", *((0, gaps) for gaps in _GAPS))
"""Line styles: the next one is used each time the colours run out."""
KINDS: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
}
"""Endings of pictures and the metadata left out (dates, versions), for equal bytes."""
PAD_IN = 0.08
"""White space around a figure."""
INK, FAINT, GRID = "#222222", "#6b6b6b", "#e4e4e4"

STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "lines.solid_capstyle": "round",
    "svg.hashsalt": "sage",
    "text.parse_math": False,
    "figure.dpi": 200,
    "savefig.facecolor": "white",
}


@contextmanager
def drawing(stem: Path, width_in: float, height_in: float) -> Iterator[Figure]:
    """Yield a figure of that many inches and save it as `stem`.png and `stem`.svg on success.

    matplotlib is imported here, so that modules that name a picture can be imported without it.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "backend": "agg"}):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        canvas = FigureCanvasAgg(figure)
        yield figure
        if (engine := figure.get_layout_engine()) is not None:
            engine.execute(figure)
            figure.set_layout_engine(None)
        # measured once for both files: savefig would draw the figure again to measure each
        box = figure.get_tightbbox(canvas.get_renderer()).padded(PAD_IN)
        for path in outputs(stem):
            with replacing(path) as temporary:
                figure.savefig(
                    temporary, format=path.suffix[1:], metadata=KINDS[path.suffix], bbox_inches=box
                )


def outputs(stem: Path) -> tuple[Path, Path]:
    """Return the paths of the two files that `drawing(stem, ...)` saves."""
    return stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")


def logarithmic(axes: Any, which: str, subs: Sequence[int] = (1,)) -> None:
    """Make an axes' x or y logarithmic, with plain numbers at `subs` times powers of 10."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def say(
    axes: Any, text: str, point: tuple[float, float], offset: tuple[float, float], **style: Any
) -> None:
    """Write a small grey note at `point` of the axes (0 to 1), moved by `offset` points."""
    style = {"xycoords": "axes fraction", "fontsize": 7, "color": FAINT, **style}
    axes.annotate(text, point, offset, textcoords="offset points", **style)


INITIAL_COLOUR = "#000000"
_INITIAL = re.compile(r"base|initial policy|SFT model|sft-.*")
"""The names of a policy before RL in suites, and its runs' ids."""
MARKERS = "o^sDvPX<>ph*d"
"""Point markers of about equal visual weight."""
HANDLE_IN, GAP_IN, LETTER_IN, ROW_IN = 0.38, 0.25, 0.063, 0.19
"""Size of an entry: its sign, the space before the next column, a letter, a line."""


def series_styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return colour, dashes and marker of each series: a method's seeds share its colour.

    The initial policy is black in every picture. When the colours run out, further methods take
    dashes and markers that the methods of the same colour do not use.
    """
    methods = by_method(labels)
    seeds = max(map(len, methods.values()), default=1)
    initial = [
        label for name in list(methods) if _INITIAL.fullmatch(name) for label in methods.pop(name)
    ]
    styles: dict[str, dict[str, Any]] = {}
    for index, label in enumerate(initial):
        look = {"linestyle": DASHES[index % len(DASHES)], "marker": MARKERS[index % len(MARKERS)]}
        styles[label] = {"color": INITIAL_COLOUR, **look}
    for index, labels_of_method in enumerate(methods.values()):
        turn, colour = divmod(index, len(COLOURS))
        for variant, label in enumerate(labels_of_method, turn * seeds):
            marker = MARKERS[(index if seeds == 1 else variant) % len(MARKERS)]
            look = {"linestyle": DASHES[variant % len(DASHES)], "marker": marker}
            styles[label] = {"color": COLOURS[colour], **look}
    return {label: styles[label] for label in labels}


def series_of(panels: Iterable[Iterable[str]]) -> list[str]:
    """Return the labels of all panels, each once, in order."""
    return list(dict.fromkeys(label for panel in panels for label in panel))


@dataclass(frozen=True)
class Legend:
    """The styles of the series and the legend below a picture, which adds `height_in` to it."""

    styles: Mapping[str, Mapping[str, Any]]
    columns: int

    @classmethod
    def from_labels(cls, labels: Sequence[str], width_in: float) -> Legend:
        """Return the legend of a picture of that width, its rows filled evenly."""
        entry_in = HANDLE_IN + GAP_IN + LETTER_IN * max(map(len, labels), default=0)
        rows = math.ceil(len(labels) / max(1, int((width_in + GAP_IN) / entry_in)))
        return cls(series_styles(labels), math.ceil(len(labels) / max(1, rows)))

    @property
    def height_in(self) -> float:
        """Height of the legend in inches."""
        return ROW_IN * math.ceil(len(self.styles) / max(1, self.columns))

    def line(self, label: str) -> dict[str, Any]:
        """Return the style of a series that is a line."""
        return {key: self.styles[label][key] for key in ("color", "linestyle")}

    def point(self, label: str) -> dict[str, Any]:
        """Return the style of a series of points."""
        return {key: self.styles[label][key] for key in ("color", "marker")}

    def draw(self, figure: Figure, *, points: bool = False) -> None:
        """Add the legend to a figure whose series are lines or `points`."""
        from matplotlib.lines import Line2D

        style: dict[str, Any] = {"linewidth": 1.6}
        if points:
            style = {"linestyle": "none", "markersize": 5}
        look = self.point if points else self.line
        handles = [Line2D([], [], **style, **look(label)) for label in self.styles]
        figure.legend(handles, list(self.styles), loc="outside lower center", ncols=self.columns)


_COLUMNS = 3
RAW = 8
"""With more runs than this, raw lines are not drawn behind the smoothed ones."""
SMOOTHED = 40
"""A smoothed line is a moving mean over this share of the steps."""

Series = tuple[FloatArray, FloatArray]
"""x and y of points: steps and values, or two numbers of each problem."""
Panels = Mapping[str, Mapping[str, Series]]
"""Title -> label -> points."""


@contextmanager
def panel_grid(
    stem: Path,
    panels: Mapping[str, Mapping[str, Any]],
    panel_in: tuple[float, float],
    extra_in: float,
    *,
    columns: int = _COLUMNS,
    points: bool = False,
    **subplots: Any,
) -> Iterator[tuple[Legend, list[Any]]]:
    """Draw a panel per title, `columns` a row; yields the legend and the panels' axes."""
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    width_in = panel_in[0] * columns
    legend = Legend.from_labels(series_of(panels.values()), width_in)
    with drawing(stem, width_in, panel_in[1] * rows + extra_in + legend.height_in) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, **subplots).ravel()
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        for axes, title in zip(grid, panels, strict=False):
            axes.set_title(title)
        yield legend, list(grid[: len(panels)])
        legend.draw(figure, points=points)


def draw_points(
    panels: Panels, axes_names: tuple[str, str], stem: Path, *, joined: bool = False
) -> None:
    """Draw two numbers against each other, a panel per benchmark: of problems, or `joined` places.

    Joined are those of a policy, as its pass@1 and pass@k by temperature.
    """
    form: dict[str, Any] = {"columns": len(panels), "points": not joined}
    alone = {"linestyle": "none", "alpha": 0.55, "markeredgewidth": 0}
    with panel_grid(stem, panels, (4.2, 3.2), 0.1, **form) as (legend, grid):
        for axes, panel in zip(grid, panels.values(), strict=True):
            for label, (x, y) in panel.items():
                look = {"marker": "o", **legend.line(label)} if joined else legend.point(label)
                axes.plot(x, y, markersize=3, linewidth=1.4, **look, **({} if joined else alone))
            axes.set_xlabel(axes_names[0])
        grid[0].set_ylabel(axes_names[1])


def draw_ecdf(panels: Mapping[str, Mapping[str, FloatArray]], axis: str, stem: Path) -> None:
    """Draw panel -> label -> positive values as the share that lies above each value.

    Both axes are logarithmic, so that heavy tails show; there is no bandwidth to choose.
    """
    with panel_grid(stem, panels, (3.6, 2.7), 0.1, sharex=True, sharey=True) as (legend, grid):
        for axes, panel in zip(grid, panels.values(), strict=True):
            for label, values in panel.items():
                if len(values):
                    share = 1 - np.arange(len(values)) / len(values)
                    look = legend.line(label)
                    axes.step(np.sort(values), share, where="pre", linewidth=1.5, **look)
            axes.set_xlabel(axis)
            logarithmic(axes, "x", (1, 2, 5))
            logarithmic(axes, "y")
        for axes in grid[:: min(_COLUMNS, len(panels))]:
            axes.set_ylabel("share above")


def draw_lines(panels: Panels, axes_names: Sequence[str], stem: Path) -> None:
    """Draw title -> label -> x and y as lines; `axes_names` are of x."""
    from matplotlib.ticker import MaxNLocator

    with panel_grid(stem, panels, (3.6, 2.4), 0.2, sharey=True) as (legend, grid):
        for axes, panel, name in zip(grid, panels.values(), axes_names, strict=True):
            for label, (x, y) in panel.items():
                axes.plot(x, y, linewidth=1.5, **legend.line(label))
            axes.xaxis.set_major_locator(MaxNLocator(5))
            axes.xaxis.set_major_formatter("{x:,g}")
            axes.set_xlabel(name)


def draw_steps(lines: Panels, points: Panels, stem: Path) -> None:
    """Draw quantity -> run -> steps and values; `points` are marked instead of smoothed."""
    titles = dict.fromkeys((*lines, *points))
    panels = {title: {**lines.get(title, {}), **points.get(title, {})} for title in titles}
    with panel_grid(stem, panels, (3.3, 2.1), 0.2) as (legend, grid):
        for axes, title in zip(grid, panels, strict=True):
            for run, (step, value) in lines.get(title, {}).items():
                style = legend.line(run)
                if len(legend.styles) <= RAW:
                    axes.plot(step, value, linewidth=0.6, alpha=0.25, color=style["color"])
                axes.plot(step, smoothed(value), linewidth=1.5, **style)
            for run, (step, value) in points.get(title, {}).items():
                axes.plot(step, value, markersize=4, linewidth=1.2, **legend.styles[run])
            smooth = " (bold: mean over neighbours)" if title in lines else ""
            axes.set_xlabel(f"step{smooth}", color=FAINT)


def smoothed(value: FloatArray) -> FloatArray:
    """Return the mean over a window around each step, shorter at both ends, NaN left out."""
    width = max(1, len(value) // SMOOTHED)
    windows = [value[max(0, i - width) : i + width + 1] for i in range(len(value))]
    defined = [window[~np.isnan(window)] for window in windows]
    return np.array([window.mean() if len(window) else np.nan for window in defined], float)


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


DotPanels = Mapping[str, Mapping[str, Mapping[str, Estimate]]]
"""Panel -> row -> policy -> value."""

DOT_PANEL_IN = 2.4
ACROSS = 4
"""The most panels side by side; further ones stand below."""
DOT_ROW_IN = 0.16
"""Height of one point."""
AIR = 1.5
"""Space between two rows, in points."""


def draw_dot_plot(panels: DotPanels, axis: str, stem: Path, *, zero: bool = False) -> None:
    """Draw panel -> row -> policy -> value against `axis`; `zero` draws a vertical line at 0.

    Panels share their rows, so that a row is read across; a row that a panel lacks stays empty.
    """
    rows = heights(panels)
    policies = {title: dict.fromkeys(series_of(panel.values())) for title, panel in panels.items()}
    most, longest = (max(map(len, names), default=0) for names in (rows.values(), rows))
    across = min(ACROSS, len(panels))
    panel_in = (DOT_PANEL_IN + 0.07 * longest / across, DOT_ROW_IN * (most + AIR) * len(rows) + 0.8)
    form: dict[str, Any] = {"columns": ACROSS, "points": True, "sharey": True}
    with panel_grid(stem, policies, panel_in, 0, **form) as (legend, grid):
        for axes, panel in zip(grid, panels.values(), strict=True):
            for row, places in rows.items():
                _draw_row(axes, places, panel.get(row, {}), legend)
            axes.set_xlabel(axis)
            axes.locator_params(axis="x", nbins=4)
            axes.set_yticks(range(len(rows)), list(rows))
            axes.tick_params(axis="y", length=0)
            axes.grid(visible=False, axis="y")
            if zero:
                axes.axvline(0, color="0.3", linewidth=0.9, zorder=1)
        grid[0].set_ylim(len(rows) - 0.5, -0.5)


def heights(panels: DotPanels) -> dict[str, dict[str, float]]:
    """Return row -> policy -> height: a row's points lie below each other around 0, 1, ..."""
    rows: dict[str, dict[str, None]] = {}
    for panel in panels.values():
        for row, values in panel.items():
            rows.setdefault(row, {}).update(dict.fromkeys(values))
    step = 1 / (max(map(len, rows.values()), default=0) + AIR)
    return {
        row: {
            policy: index + (order - (len(policies) - 1) / 2) * step
            for order, policy in enumerate(policies)
        }
        for index, (row, policies) in enumerate(rows.items())
    }


def _draw_row(
    axes: Any, places: Mapping[str, float], values: Mapping[str, Estimate], legend: Legend
) -> None:
    """Draw the policies' points of one row."""
    for policy, height in places.items():
        value = values.get(policy)
        if value is None or math.isnan(value.value):
            continue
        look = legend.point(policy)
        axes.plot([value.value], [height], markersize=4, clip_on=False, **look)
        if value.interval is not None:
            axes.hlines(height, *value.interval, color=look["color"], linewidth=1.4)
