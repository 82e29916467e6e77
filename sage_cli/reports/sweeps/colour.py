"""The colours of values in a sweep's pictures: most of them for the trials of interest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from sage_cli.reports.sweeps.marks import colours

LOWEST, HIGHEST = 0.1, 0.7
"""The part of the colour map that shows values."""
FEWEST = 4
"""Of fewer values all are of interest."""


class Region(NamedTuple):
    """The values that have colours of their own; lower ones share the lowest if `clipped`."""

    low: float
    high: float
    clipped: bool

    @property
    def extend(self) -> str:
        """Return matplotlib's word for a colour bar with or without an arrow at its lower end."""
        return "min" if self.clipped else "neither"


def region_of_interest(values: Sequence[float], best: float, least: float) -> Region:
    """Return the range of colours for `values`: the better half of them has half of it or more.

    One trial that collapsed would otherwise leave a single colour to all the others. `least` is
    the least range: equal values get equal colours.
    """
    lowest = float(min(values))
    low = lowest
    if len(values) >= FEWEST:
        low = max(low, best - 2 * (best - float(np.median(values))))
    low = min(low, best - least)
    return Region(low, best, clipped=lowest < low)


def value_colours() -> Any:
    """Return the part of the colour map that shows values."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(colours()(np.linspace(LOWEST, HIGHEST, 128)))


def colour_bar(figure: Any, axes: Any, region: Region, pad: float = 0.03) -> Any:
    """Draw a region's colour bar beside a panel; return it."""
    bar = figure.colorbar(
        value_scale(region), ax=axes, fraction=0.05, pad=pad, extend=region.extend
    )
    bar.outline.set_visible(False)
    return bar


def value_scale(region: Region) -> Any:
    """Return matplotlib's mapping from the values of a region to colours."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(region.low, region.high, clip=True), value_colours())
