"""The heat map of a sweep: its cells, colours and states."""

import re
from dataclasses import replace
from itertools import product

import matplotlib as mpl
from matplotlib.colors import to_hex
from sweep_cells import MEMORY, at

from sage_cli.metrics.ranking import Ranking
from sage_cli.reports.figures.style import outputs
from sage_cli.trials.sweep.heatmap import ALIKE, BEST, LOWEST, draw_heatmaps
from sage_cli.trials.sweep.result import Axis, SweepResult, SweepTrial

AXES = Axis("tau", "guide.tau", (0.8, 1.2)), Axis("rho", "guide.rho", (0.1, 0.3, 0.5))


def grid(*values, alike=(), objectives=("pass@1",)):
    """Trials row by row; None failed. `alike` are places in them."""
    trials = [
        SweepTrial(at(AXES, tau, rho), "failed", failure=MEMORY)
        if value is None
        else SweepTrial(
            at(AXES, tau, rho), "done", {name: value + 0.5 * n for n, name in enumerate(objectives)}
        )
        for (tau, rho), value in zip(product((0.8, 1.2), AXES[1].values), values, strict=False)
    ]
    alike = tuple(alike)
    rankings = {"pass@1": Ranking(alike[0], alike, 0.01, 0.95)} if alike else {}
    return SweepResult(AXES, objectives, 0.95, None, tuple(trials), rankings=rankings)


def drawn(svg, words):
    return svg.read_text().count(f"<!-- {words} -->")


def test_every_trial_says_what_became_of_it(tmp_path):
    result = grid(0.417, 0.45, None, 0.45, 0.433, objectives=("pass@1", "pass@64"))
    rest = (SweepTrial(at(AXES, 0.8, 0.5), "pruned"), SweepTrial(at(AXES, 1.2, 0.5), "running"))
    result = replace(result, trials=(*result.trials, rest[1]))
    draw_heatmaps(result, tmp_path / "sweep")
    png, svg = outputs(tmp_path / "sweep")
    assert png.stat().st_size > 1000
    for words in ("pass@1", "pass@64", "τ", "0.417", "0.433", "0.917", "0.933"):
        assert drawn(svg, words) == 1, words
    assert drawn(svg, "0.450") == 2
    assert drawn(svg, "failed") == 2
    assert drawn(svg, "running") == 2
    # both best trials of both panels are framed, since they tie, and the legend says so
    assert svg.read_text().count(f"stroke: {BEST}") == 5
    assert drawn(svg, "best") == 1
    assert drawn(svg, "standard error unknown") == 2
    fewer = replace(grid(0.4), trials=(*grid(0.4).trials, rest[0]))
    draw_heatmaps(fewer, tmp_path / "fewer")
    _, svg = outputs(tmp_path / "fewer")
    assert (drawn(svg, "pruned"), drawn(svg, "not run")) == (1, 4)


def test_no_result_can_be_drawn_and_true_and_1_are_two_values(tmp_path):
    draw_heatmaps(grid(None), tmp_path / "none")
    _, svg = outputs(tmp_path / "none")
    assert (drawn(svg, "failed"), drawn(svg, "not run")) == (1, 5)
    assert drawn(svg, "best") == 0
    axes = Axis("on", "a.b", (1, True)), AXES[1]
    trials = tuple(
        SweepTrial(at(axes, on, 0.1), "done", {"pass@1": value})
        for on, value in ((1, 0.25), (True, 0.75))
    )
    draw_heatmaps(SweepResult(axes, ("pass@1",), 0.95, None, trials), tmp_path / "x")
    _, svg = outputs(tmp_path / "x")
    assert (drawn(svg, "0.250"), drawn(svg, "0.750"), drawn(svg, "true")) == (1, 1, 1)


def filled(svg, place):
    """How many shapes have the colour at `place` of the map."""
    return svg.read_text().count(f"fill: {to_hex(mpl.colormaps['cividis'](place))}")


def test_what_cannot_be_told_apart_from_the_best_looks_like_it(tmp_path):
    draw_heatmaps(grid(0.417, 0.45, None, 0.2, 0.433, 0.45, alike=(1, 4, 5)), tmp_path / "x")
    _, svg = outputs(tmp_path / "x")
    assert filled(svg, ALIKE) == 4  # three trials and the legend
    assert drawn(svg, "indistinguishable from the best") == 1
    assert drawn(svg, "95%, standard error of a difference: 0.010") == 1
    # all alike have one colour and no scale; 0.400 would be a tick of a colour bar
    draw_heatmaps(grid(0.399, 0.401, alike=(0, 1)), tmp_path / "x")
    assert (filled(svg, ALIKE), drawn(svg, "0.400")) == (3, 0)
    # The noise isn't known: the bar goes from .1 below the best up to it, so that .399 is 98% of
    # its way up, and both trials are of the bright end of what is shown.
    draw_heatmaps(grid(0.399, 0.401), tmp_path / "x")
    assert re.search("<!-- 0[.]3[0-6]0* -->", svg.read_text())
    assert filled(svg, LOWEST) == 0
