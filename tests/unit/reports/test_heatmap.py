from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex

from sage_cli.errors import MetricError
from sage_cli.reports.heatmap import ALIKE, BEST, COLOURS, LOWEST, Alike, Axis, draw_heatmaps

TAU, RHO = Axis("τ", (0.8, 1.2)), Axis("ρ", (0.1, 0.3, 0.5))
PASS_1 = np.array([[0.417, 0.45, np.nan], [np.nan, 0.433, 0.45]])
FAILED = np.array([[False, False, True], [False, False, False]])


def drawn(svg: Path, words: str) -> int:
    return svg.read_text().count(f"<!-- {words} -->")


def test_every_cell_says_what_became_of_it(tmp_path: Path) -> None:
    panels = {"pass@1": PASS_1, "pass@64": PASS_1 + 0.5}
    png, svg = draw_heatmaps(TAU, RHO, panels, FAILED, tmp_path / "sweep")
    assert png.stat().st_size > 1000
    for words in ("pass@1", "pass@64", "τ", "0.417", "0.433", "0.917", "0.933"):
        assert drawn(svg, words) == 1, words
    assert drawn(svg, "0.450") == 2
    assert drawn(svg, "failed") == 2
    assert drawn(svg, "not run") == 2
    # both best cells of both panels are framed, since they tie, and the legend says so
    assert svg.read_text().count(f"stroke: {BEST}") == 5
    assert drawn(svg, "best") == 1
    assert drawn(svg, "noise unknown") == 2


def test_same_data_same_bytes(tmp_path: Path) -> None:
    first = draw_heatmaps(TAU, RHO, {"pass@1": PASS_1}, FAILED, tmp_path / "first")
    again = draw_heatmaps(TAU, RHO, {"pass@1": PASS_1}, FAILED, tmp_path / "again")
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_sweep_without_any_result_can_be_drawn(tmp_path: Path) -> None:
    nothing = np.full((2, 3), np.nan)
    _, svg = draw_heatmaps(TAU, RHO, {"pass@1": nothing}, FAILED, tmp_path / "none")
    assert (drawn(svg, "failed"), drawn(svg, "not run")) == (1, 5)


def test_values_of_another_shape_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MetricError, match="pass@1 has shape"):
        draw_heatmaps(TAU, RHO, {"pass@1": PASS_1.T}, FAILED, tmp_path / "bad")


def filled(svg: Path, place: float) -> int:
    """How many shapes have the colour at `place` of the map."""
    return svg.read_text().count(f"fill: {to_hex(mpl.colormaps[COLOURS](place))}")


def test_what_cannot_be_told_apart_from_the_best_looks_like_it(tmp_path: Path) -> None:
    alike = Alike(np.array([[False, True, False], [False, True, True]]), "95 %, noise")
    _, svg = draw_heatmaps(TAU, RHO, {"pass@1": PASS_1}, FAILED, tmp_path / "x", {"pass@1": alike})
    assert filled(svg, ALIKE) == 4  # three cells and the legend
    assert drawn(svg, "can't be told apart from the best") == 1
    assert drawn(svg, "95 %, noise") == 1


def test_cells_that_are_all_alike_have_one_colour_and_no_scale(tmp_path: Path) -> None:
    values = np.array([[0.399, 0.401]])
    alike = {"pass@1": Alike(np.full((1, 2), True), "noise")}
    axes = Axis("τ", (1.0,)), Axis("ρ", (0.1, 0.3))
    failed = np.zeros((1, 2), bool)
    _, svg = draw_heatmaps(*axes, {"pass@1": values}, failed, tmp_path / "x", alike)
    assert filled(svg, ALIKE) == 3
    assert drawn(svg, "0.400") == 0  # a tick of a colour bar


def test_a_colour_bar_says_what_colours_mean_and_small_steps_do_not_span_it(tmp_path: Path) -> None:
    axes = Axis("τ", (1.0,)), Axis("ρ", (0.1, 0.3))
    failed = np.zeros((1, 2), bool)
    values = {"pass@1": np.array([[0.399, 0.401]])}
    _, svg = draw_heatmaps(*axes, values, failed, tmp_path / "x")
    # The noise isn't known: the bar goes from .1 below the best up to it, so that .399 is 98 % of
    # its way up, and both cells are of the bright end of what is shown.
    assert re.search("<!-- 0[.]350* -->", svg.read_text())
    assert filled(svg, LOWEST) == 0
