"""The style of all figures, with matplotlib imported only when one is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.store.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
