"""Phases of a training, its reward beside the test, against numbers worked out by hand."""

import math

import numpy as np
import pytest

from sage_cli.analysis.analysis import Inputs, Options, TrainedRun
from sage_cli.analysis.dynamics import dynamics, phase_means, series
from sage_cli.metrics import Counts
from sage_cli.reports.figures.panels import smoothed

RECORDS = [
    {"step": step, "grad_norm": float(step), "reward": step / 10, "entropy": None}
    for step in range(1, 8)
]


def test_thirds_and_smoothing_by_hand():
    # ends at 7/3 and 14/3: steps 1, 2 | 3, 4 | 5, 6, 7
    early, mid, late = phase_means(series(RECORDS, "grad_norm"), RECORDS)
    assert [early.value, mid.value, late.value] == [1.5, 3.5, 6.0]
    # of 5, 6, 7: squares 1 + 0 + 1 over 2
    assert late.sd == pytest.approx(1.0)
    # six steps: 1, 2 | 3, 4 | 5, 6
    means = phase_means(series(RECORDS[:6], "grad_norm"), RECORDS[:6])
    assert [one.value for one in means] == [1.5, 3.5, 5.5]
    records = [*RECORDS, {"step": 8, "grad_norm": math.nan}]
    assert series(records, "grad_norm")[0].tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert len(series(records, "entropy")[0]) == len(series(records, "kl/reference")[0]) == 0
    # 7 values: one neighbour on either side
    value = np.array([1.0, 3.0, math.nan, 5.0, 5.0, 5.0, 8.0])
    assert smoothed(value).tolist() == pytest.approx([2.0, 2.0, 4.0, 5.0, 5.0, 6.0, 6.5])


def test_reward_beside_test(tmp_path):
    counts = {4: Counts(("a", "b"), [4, 4], [1, 3]), 7: Counts(("a", "b"), [4, 4], [4, 4])}
    trained = TrainedRun("rl-1", RECORDS, {"arithmetic": counts})
    bare = TrainedRun("rl-2", RECORDS)
    document = dynamics(
        Inputs(trained={"grpo": trained, "grpo, seed 2": bare}, options=Options(resamples=200))
    )
    test = document.data["test"]
    # a sixteenth of seven steps is one: the reward of the step itself
    assert [(row["step"], row["training reward"], row["pass@1"]) for row in test] == [
        (4, 0.4, 0.5),
        (7, 0.7, 1.0),
    ]
    assert {row["quantity"] for row in document.data["phases"]} == {
        "gradient norm",
        "training reward",
    }
    assert document.notes == ("`sage passk rl-2@all` measures grpo, seed 2's checkpoints",)
    report = document.write(tmp_path)
    assert {file.name for file in report.files} >= {"dynamics.png", "dynamics-steps.csv"}
