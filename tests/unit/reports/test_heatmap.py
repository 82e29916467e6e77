from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.reports.heatmap import BEST, Axis, draw_heatmaps

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
    # both best cells of both panels are framed, since they tie
    assert svg.read_text().count(f"stroke: {BEST}") == 4


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
