"""The claims of docs/results/neighbours.md have the intervals that its counts give."""

import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from sage_cli.metrics import Counts, Side
from sage_cli.metrics.comparison import TrainingSeed
from sage_cli.reports.comparison.contrast import contrast_of

RESULTS = Path(__file__).parents[3] / "docs" / "results"
KS = (1, 256)
CLAIM = re.compile(r"^\| `(\S+)` [<>] `(\S+)` at pass@(\d+) \| (.*) \|$", re.MULTILINE)
INTERVAL = r"\[−?\d\.\d{3}, −?\d\.\d{3}\]"


@pytest.fixture(scope="module")
def sides():
    """The runs of each trained method, which all began with one model and read the same rows."""
    by_run = defaultdict(list)
    for row in parquet.read_table(RESULTS / "neighbours.counts.parquet").to_pylist():
        by_run[row["method"], row["seed"], row["policy"]].append(row)
    runs, seeds = defaultdict(list), defaultdict(list)
    for (method, seed, policy), rows in sorted(by_run.items()):
        n_P, c_P = (np.array([row[name] for row in rows]) for name in "nc")
        runs[method].append([Counts(tuple(row["problem"] for row in rows), n_P, c_P)])
        seeds[method].append(TrainingSeed(seed, "study", policy))
    return {
        method: Side(method, tuple(runs[method]), seeds=tuple(seeds[method]))
        for method in runs
        if method != "base"
    }


def test_each_claim_has_its_interval_pooled_and_by_the_seeds_of_its_methods(sides):
    rows = CLAIM.findall((RESULTS / "neighbours.md").read_text())
    assert len(rows) == 6
    for a, b, k, outcome in rows:
        contrast = contrast_of(sides[a], sides[b], KS, list(sides.values()))
        place = KS.index(int(k))
        computed = [
            f"[{gap.low_K[place]:.3f}, {gap.high_K[place]:.3f}]".replace("-", "−")
            for gap in (contrast.difference, contrast.unpooled)
        ]
        assert re.findall(INTERVAL, outcome) == computed
        assert f"{contrast.difference.mean_K[place]:+.3f}".replace("-", "−") in outcome
        own_contains_0 = contrast.unpooled.low_K[place] < 0 < contrast.unpooled.high_K[place]
        if outcome.startswith("**holds**"):
            assert ("only with the pooled variance" in outcome) == own_contains_0
