"""Optuna's pictures of a sweep: which there are, and what they are drawn from."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path

import matplotlib as mpl
import pytest
from matplotlib.colors import to_hex
from PIL import Image
from sweep_cells import BOTH, GRID, MEMORY, PASS_1, RANGES, at, done

from sage_cli.json_value import json_value
from sage_cli.metrics.ranking import Ranking
from sage_cli.reports.figures import outputs
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweep_report import (
    ALIKE,
    BEST,
    LOWEST,
    _study,
    draw_heatmaps,
    sweep_document,
    write_pictures,
)
from sage_cli.reports.sweep_result import Axis, SweepResult, SweepTrial, from_data
from sage_cli.store.files import json_text

AXES = Axis("tau", "guide.tau", (0.8, 1.2)), Axis("rho", "guide.rho", (0.1, 0.3, 0.5))


def grid(*values: float | None, alike: Iterable[int] = (), objectives=("pass@1",)) -> SweepResult:
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


def drawn(svg: Path, words: str) -> int:
    return svg.read_text().count(f"<!-- {words} -->")


def test_every_trial_says_what_became_of_it(tmp_path: Path) -> None:
    result = grid(0.417, 0.45, None, 0.45, 0.433, objectives=("pass@1", "pass@64"))
    rest = (
        SweepTrial(at(AXES, 0.8, 0.5), "pruned"),
        SweepTrial(at(AXES, 1.2, 0.5), "running"),
    )
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
    assert drawn(svg, "noise unknown") == 2
    fewer = replace(grid(0.4), trials=(*grid(0.4).trials, rest[0]))
    draw_heatmaps(fewer, tmp_path / "fewer")
    _, svg = outputs(tmp_path / "fewer")
    assert (drawn(svg, "pruned"), drawn(svg, "not run")) == (1, 4)


def test_same_data_same_bytes(tmp_path: Path) -> None:
    draw_heatmaps(grid(0.4, 0.5, None), tmp_path / "first")
    first = outputs(tmp_path / "first")
    draw_heatmaps(grid(0.4, 0.5, None), tmp_path / "again")
    again = outputs(tmp_path / "again")
    for one, other in zip(first, again, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_sweep_without_any_result_can_be_drawn(tmp_path: Path) -> None:
    draw_heatmaps(grid(None), tmp_path / "none")
    _, svg = outputs(tmp_path / "none")
    assert (drawn(svg, "failed"), drawn(svg, "not run")) == (1, 5)
    assert drawn(svg, "best") == 0


def filled(svg: Path, place: float) -> int:
    """How many shapes have the colour at `place` of the map."""
    return svg.read_text().count(f"fill: {to_hex(mpl.colormaps['cividis'](place))}")


def test_what_cannot_be_told_apart_from_the_best_looks_like_it(tmp_path: Path) -> None:
    draw_heatmaps(grid(0.417, 0.45, None, 0.2, 0.433, 0.45, alike=(1, 4, 5)), tmp_path / "x")
    _, svg = outputs(tmp_path / "x")
    assert filled(svg, ALIKE) == 4  # three trials and the legend
    assert drawn(svg, "indistinguishable from the best") == 1
    assert drawn(svg, "95 %, standard error of a difference: 0.010") == 1


def test_trials_that_are_all_alike_have_one_colour_and_no_scale(tmp_path: Path) -> None:
    draw_heatmaps(grid(0.399, 0.401, alike=(0, 1)), tmp_path / "x")
    _, svg = outputs(tmp_path / "x")
    assert filled(svg, ALIKE) == 3
    assert drawn(svg, "0.400") == 0  # a tick of a colour bar


def test_a_colour_bar_says_what_colours_mean_and_small_steps_do_not_span_it(tmp_path: Path) -> None:
    draw_heatmaps(grid(0.399, 0.401), tmp_path / "x")
    _, svg = outputs(tmp_path / "x")
    # The noise isn't known: the bar goes from .1 below the best up to it, so that .399 is 98 % of
    # its way up, and both trials are of the bright end of what is shown.
    assert re.search("<!-- 0[.]3[0-6]0* -->", svg.read_text())
    assert filled(svg, LOWEST) == 0


def test_true_and_1_are_two_values(tmp_path: Path) -> None:
    axes = Axis("on", "a.b", (1, True)), AXES[1]
    trials = tuple(
        SweepTrial(at(axes, on, 0.1), "done", {"pass@1": value})
        for on, value in ((1, 0.25), (True, 0.75))
    )
    draw_heatmaps(SweepResult(axes, ("pass@1",), 0.95, None, trials), tmp_path / "x")
    _, svg = outputs(tmp_path / "x")
    assert (drawn(svg, "0.250"), drawn(svg, "0.750"), drawn(svg, "true")) == (1, 1, 1)


GUIDE = (Axis("guide", "guide.name", ("none", "branch")), RANGES[0])
EACH = {"history", "slices", "contours", "parallel", "importances"}


def result_of(axes, objectives, trials) -> SweepResult:
    """The stored report of these trials, as it is read again."""
    document = sweep_document(axes, objectives, trials, Provenance())
    return from_data(json_value(json_text(document.data).encode()))


def test_two_objectives_have_pictures_each_and_a_front(tmp_path: Path) -> None:
    trials = [done(at(GRID, 0.8, rho), n, n, objectives=BOTH) for n, rho in enumerate((0.1, 0.3))]
    result = result_of(GRID, BOTH, trials)
    files = write_pictures(result, tmp_path / "new")
    wanted = {f"{stem}-{objective}" for stem in EACH for objective in result.objectives}
    assert {file.stem for file in files} == {*wanted, "front"}
    for file in files:
        with Image.open(file) as picture:
            assert min(picture.size) > 200
            assert len(set(picture.convert("L").resize((64, 64)).getdata())) > 5


def test_one_parameter_has_neither_contours_nor_parallel_coordinates(tmp_path: Path) -> None:
    trials = [done(at(RANGES[:1], tau), n, n) for n, tau in enumerate((0.3, 0.5, 0.7))]
    files = write_pictures(result_of(RANGES[:1], (PASS_1,), trials), tmp_path)
    assert {file.stem for file in files} == EACH - {"contours", "parallel"}


def test_equal_values_have_no_importance(tmp_path: Path) -> None:
    trials = [SweepTrial(at(GRID, 0.8, rho), "done", {"pass@1": 0.5}) for rho in (0.1, 0.3)]
    files = write_pictures(result_of(GRID, (PASS_1,), trials), tmp_path)
    assert {file.stem for file in files} == EACH - {"importances"}


def test_the_study_has_the_measured_trials_with_the_values_that_were_searched() -> None:
    trials = [
        done({"guide.name": "none"}, 1),
        SweepTrial({"guide.name": "branch", "guide.tau": 0.3}, "failed", failure=MEMORY),
        done({"guide.name": "branch", "guide.tau": 0.5}, 2),
    ]
    result = result_of(GUIDE, (PASS_1,), trials)
    study = _study(result, ["pass@1"])
    assert [one.params for one in study.trials] == [
        {"guide": "none"},
        {"guide": "branch", "tau": 0.5},
    ]
    assert [one.value for one in study.trials] == [*result.value_at("pass@1").values()]
    assert study.best_trial.number == [*result.done].index(result.best("pass@1"))


@pytest.mark.parametrize("axis", [GRID[0], RANGES[1]])
def test_numbers_have_a_scale_and_words_have_none(axis: Axis) -> None:
    values = axis.values or (axis.low, axis.high)
    trials = [done({axis.key: value}, n) for n, value in enumerate(values)]
    study = _study(result_of((axis,), (PASS_1,), trials), ["pass@1"])
    distribution = study.trials[0].distributions[axis.name]
    assert (distribution.low, distribution.high) == (min(values), max(values))
    assert distribution.log == axis.log
