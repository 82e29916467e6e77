"""Optuna's pictures of a sweep: which there are, and what they are drawn from."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from sweep_cells import BOTH, GRID, MEMORY, PASS_1, RANGES, at, done

from sage_cli.json_value import json_value
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.sweeps.document import sweep_document
from sage_cli.reports.sweeps.optuna_pictures import _study, write_pictures
from sage_cli.reports.sweeps.result import Axis, SweepResult, SweepTrial, from_data
from sage_cli.store.files import json_text

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
