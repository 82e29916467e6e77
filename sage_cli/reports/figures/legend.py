"""The names, styles and legend of the series of a picture."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sage_cli.reports.figures.figure import COLOURS, DASHES, line_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SEED = ", seed "
INITIAL_COLOUR = "#000000"
_INITIAL = re.compile(r"base|initial policy|sft-.*")
"""The names of a policy before RL in suites, and its runs' ids."""
MARKERS = "o^sDvPX<>ph*d"
"""Point markers of about equal visual weight."""
HANDLE_IN, GAP_IN, LETTER_IN, ROW_IN = 0.38, 0.25, 0.063, 0.19
"""Size of an entry: its sign, the space before the next column, a letter, a line."""


def seeded(method: str, seed: int) -> str:
    """Return a training's label, as `grpo-branch, seed 2`."""
    return f"{method}{_SEED}{seed}"


def by_method(labels: Sequence[str]) -> dict[str, list[str]]:
    """Return method -> its series in order; a label without a seed is a method of its own.

    Labels that a user gives are read alike: `RUN=branch, seed 2`.
    """
    methods: dict[str, list[str]] = {}
    for label in labels:
        method, _, seed = label.rpartition(_SEED)
        methods.setdefault(method if method and seed.isdigit() else label, []).append(label)
    return methods


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
    for place, label in enumerate(initial):
        look = {"linestyle": DASHES[place % len(DASHES)], "marker": MARKERS[place % len(MARKERS)]}
        styles[label] = {"color": INITIAL_COLOUR, **look}
    for place, own in enumerate(methods.values()):
        turn, colour = divmod(place, len(COLOURS))
        for variant, label in enumerate(own, turn * seeds):
            marker = MARKERS[(place if seeds == 1 else variant) % len(MARKERS)]
            styles[label] = {**line_style(colour + variant * len(COLOURS)), "marker": marker}
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
    def of(cls, labels: Sequence[str], width_in: float) -> Legend:
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

    def draw_lines(self, figure: Figure) -> None:
        """Add the legend of a figure whose series are lines."""
        self._draw(figure, self.line, linewidth=1.6)

    def draw_points(self, figure: Figure) -> None:
        """Add the legend of a figure whose series are points."""
        self._draw(figure, self.point, linestyle="none", markersize=5)

    def _draw(self, figure: Figure, look: Callable[[str], dict[str, Any]], **style: Any) -> None:
        from matplotlib.lines import Line2D

        handles = [Line2D([], [], **style, **look(label)) for label in self.styles]
        figure.legend(handles, list(self.styles), loc="outside lower center", ncols=self.columns)
