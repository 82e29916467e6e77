"""How figures look and are saved: one style, colours for all eyes, the same bytes each time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sage_cli.reports.series import by_method
from sage_cli.store.atomic import replacing

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito (2008), less the yellow that vanishes on paper and the black of initial policies.
"""
INITIAL_COLOUR = "#000000"
_INITIAL = re.compile(r"base|initial policy|sft-.*")
"""What suites, and the ids of runs, call a policy before RL."""
DASHES = (
    "-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 2)), (0, (1, 3)),
    (0, (4, 1, 1, 1, 1, 1)), (0, (7, 1)), (0, (3, 3)),
)  # fmt: skip
"""Line styles, one more each time the colours run out."""
MARKERS = "o^sDvPX<>ph*d"
"""Of points, each as heavy as the next."""
KINDS: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Endings of pictures, and what isn't written into them (dates, versions): same data, same bytes.
"""
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
    """A figure of that many inches to draw on; on success it is at `stem`.png and `stem`.svg.

    A `stem` that ends in one of `KINDS` is one file instead.
    """
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE, "backend": "agg"}):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        canvas = FigureCanvasAgg(figure)
        yield figure
        lay_out(figure)
        # Measured once for both files: savefig would draw the figure anew to measure each.
        box = figure.get_tightbbox(canvas.get_renderer()).padded(PAD_IN)
        for path in (stem,) if stem.suffix in KINDS else outputs(stem):
            with replacing(path) as temporary:
                figure.savefig(
                    temporary, format=path.suffix[1:], metadata=KINDS[path.suffix], bbox_inches=box
                )


def lay_out(figure: Figure) -> None:
    """Give the panels their final places; what is drawn afterwards leaves them there."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


def outputs(stem: Path) -> tuple[Path, Path]:
    """Where `drawing(stem, ...)` leaves its two files."""
    return stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")


def line_style(index: int) -> dict[str, Any]:
    """Colour and dashes of the `index`-th line; no two of the first 54 look the same."""
    turn, colour = divmod(index, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": DASHES[turn % len(DASHES)]}


def series_styles(labels: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colour, dashes and marker of each series: a method has a colour, its seeds share it.

    The initial policy is black in every picture, whatever stands beside it. Where the colours run
    out, a further method takes dashes and markers that the colour's methods before it have left.
    """
    methods = by_method(labels)
    seeds = max(map(len, methods.values()), default=1)
    initial = [
        label for name in list(methods) if _INITIAL.fullmatch(name) for label in methods.pop(name)
    ]
    styles: dict[str, dict[str, Any]] = {
        label: {
            "color": INITIAL_COLOUR,
            "linestyle": DASHES[place % len(DASHES)],
            "marker": MARKERS[place % len(MARKERS)],
        }
        for place, label in enumerate(initial)
    }
    for place, own in enumerate(methods.values()):
        turn, colour = divmod(place, len(COLOURS))
        for look, label in enumerate(own, turn * seeds):
            marker = MARKERS[(place if seeds == 1 else look) % len(MARKERS)]
            styles[label] = {**line_style(colour + look * len(COLOURS)), "marker": marker}
    return {label: styles[label] for label in labels}
