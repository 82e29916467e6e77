"""Colours, dashes and markers of the series of a figure, with the legend that explains them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sage_cli.reports.labels import by_method

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito (2008) without yellow, which vanishes on paper, and black (initial policies)."""
_GAPS = ((5, 2), (1.5, 1.5), (6, 2, 1.5, 2), (9, 2), (1, 3), (4, 1, 1, 1, 1, 1), (7, 1), (3, 3))
DASHES = ("-", *((0, gaps) for gaps in _GAPS))
"""Line styles: the next one is used each time the colours run out."""
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
