"""The style of figures and how they are saved: the same data give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.store.atomic import replacing

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
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
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

    A `stem` with an ending of `KINDS` names a single file. matplotlib is imported here, so that
    modules that name a picture can be imported without it.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "backend": "agg"}):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        canvas = FigureCanvasAgg(figure)
        yield figure
        lay_out(figure)
        # measured once for both files: savefig would draw the figure again to measure each
        box = figure.get_tightbbox(canvas.get_renderer()).padded(PAD_IN)
        for path in (stem,) if stem.suffix in KINDS else outputs(stem):
            with replacing(path) as temporary:
                figure.savefig(
                    temporary, format=path.suffix[1:], metadata=KINDS[path.suffix], bbox_inches=box
                )


def lay_out(figure: Figure) -> None:
    """Give the panels their final places; later additions do not move them."""
    if (engine := figure.get_layout_engine()) is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


def outputs(stem: Path) -> tuple[Path, Path]:
    """Return the paths of the two files that `drawing(stem, ...)` saves."""
    return stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")


def line_style(index: int) -> dict[str, Any]:
    """Return colour and dashes of the `index`-th line; the first 54 differ from each other."""
    turn, colour = divmod(index, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": DASHES[turn % len(DASHES)]}


def logarithmic(axes: Any, which: str, subs: Sequence[int] = (1,), base: int = 10) -> None:
    """Make an axes' x or y logarithmic, with plain numbers at `subs` times powers of `base`."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    getattr(axes, f"set_{which}scale")("log")
    axis = getattr(axes, f"{which}axis")
    axis.set_major_locator(LogLocator(base, subs=subs))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def say(
    axes: Any, text: str, place: tuple[float, float], offset: tuple[float, float], **style: Any
) -> None:
    """Write a small grey note at `place` of the axes (0 to 1), moved by `offset` points."""
    style = {"xycoords": "axes fraction", "fontsize": 7, "color": FAINT, **style}
    axes.annotate(text, place, offset, textcoords="offset points", **style)
