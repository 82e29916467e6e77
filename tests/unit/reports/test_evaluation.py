from __future__ import annotations

import math

import numpy as np
import pytest

from sage_cli.metrics import Counts
from sage_cli.reports.evaluation import evaluation_table, score
from sage_cli.reports.table import Measure


def counts(*c: int) -> Counts:
    return Counts(tuple(f"p{i}" for i in range(len(c))), np.full(len(c), 4), np.array(c))


def test_mean_and_deviation_over_seeds() -> None:
    # pass@1 of the seeds: 1/4, 3/4 -> mean 1/2, sd sqrt(2 * (1/4)^2 / 1) = 0.353553
    scores = score({"aime": [counts(1, 1), counts(2, 4)], "amc23": [counts(4)]}, (1, 4))
    assert scores["aime"][1].value == pytest.approx(0.5, abs=1e-15)
    assert scores["aime"][1].sd == pytest.approx(math.sqrt(1 / 8), abs=1e-15)
    assert scores["aime"][4] == Measure(1.0, 0.0)
    assert math.isnan(scores["amc23"][1].sd or 0)


def test_the_average_is_unweighted_and_needs_every_benchmark() -> None:
    ours = {"aime": {1: Measure(0.1, 0.01)}, "amc23": {1: Measure(0.5)}}
    table = evaluation_table("t", {"ours": ours}, {"grpo": {"aime": {1: Measure(0.3, 0.02)}}})
    assert [(c.group, c.name) for c in table.columns] == [
        ("", "model"), ("aime", "pass@1"), ("amc23", "pass@1"), ("average", "pass@1"),
    ]  # fmt: skip
    assert [str(cell) for cell in table.rows[0].cells] == [
        "ours",
        "0.100 ± 0.010",
        "0.500",
        "0.300",
    ]
    assert [str(c) for c in table.rows[1].cells] == ["grpo (paper)", "0.300 ± 0.020", "–", "–"]
    assert table.rows[1].section == "paper"


def test_one_benchmark_has_no_average() -> None:
    table = evaluation_table("t", {"ours": {"aime": {1: Measure(0.1), 8: Measure(0.2)}}})
    assert [column.name for column in table.columns] == ["model", "pass@1", "pass@8"]
