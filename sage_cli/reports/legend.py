"""The series of a picture, named below it in as many columns as its width takes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from sage_cli.reports.figure import series_styles

HANDLE_IN, GAP_IN, LETTER_IN, ROW_IN = 0.38, 0.25, 0.063, 0.19
"""What an entry takes: its sign, the space before the next column, each letter, its line."""


@dataclass(frozen=True)
class Legend:
    """How the series look, and where they are named; `height_in` is to be added to the picture."""

    styles: Mapping[str, Mapping[str, Any]]
    columns: int

    @classmethod
    def of(cls, labels: Sequence[str], width_in: float) -> Legend:
        """The legend of a picture of that width, its rows filled as evenly as they can be."""
        entry_in = HANDLE_IN + GAP_IN + LETTER_IN * max(map(len, labels), default=0)
        rows = math.ceil(len(labels) / max(1, int((width_in + GAP_IN) / entry_in)))
        return cls(series_styles(labels), math.ceil(len(labels) / max(1, rows)))

    @property
    def height_in(self) -> float:
        """What it adds to a picture."""
        return ROW_IN * math.ceil(len(self.styles) / max(1, self.columns))

    def line(self, label: str) -> dict[str, Any]:
        """How a series is drawn as a line."""
        return {key: self.styles[label][key] for key in ("color", "linestyle")}

    def point(self, label: str) -> dict[str, Any]:
        """How a series is drawn as points."""
        return {key: self.styles[label][key] for key in ("color", "marker")}

    def draw_lines(self, figure: Figure) -> None:
        """Name series that are lines."""
        self._draw(figure, [Line2D([], [], linewidth=1.6, **self.line(one)) for one in self.styles])

    def draw_points(self, figure: Figure) -> None:
        """Name series that are points."""
        plain: dict[str, Any] = {"linestyle": "none", "markersize": 5}
        self._draw(figure, [Line2D([], [], **plain, **self.point(one)) for one in self.styles])

    def _draw(self, figure: Figure, handles: list[Line2D]) -> None:
        figure.legend(handles, list(self.styles), loc="outside lower center", ncols=self.columns)
