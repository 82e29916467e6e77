from __future__ import annotations

import numpy as np
import pytest

from sage_cli.errors import MetricError
from sage_cli.metrics import Counts, method_difference, paired_difference, pooled


def counts(c_P: np.ndarray, n: int) -> Counts:
    return Counts(tuple(f"p{i}" for i in range(len(c_P))), np.full(len(c_P), n), c_P)


def trained(generator: np.random.Generator, logit_P: np.ndarray, seeds: int) -> list[list[Counts]]:
    """Runs of one method: every training seed moves all problems together, and each a little."""
    runs = []
    for _ in range(seeds):
        moved_P = logit_P + generator.normal(0, 0.5) + generator.normal(0, 0.3, len(logit_P))
        runs.append([counts(generator.binomial(64, 1 / (1 + np.exp(-moved_P))), 64)])
    return runs


def test_covers_where_treating_runs_as_one_does_not() -> None:
    generator = np.random.default_rng(4)
    repetitions, covered, covered_naively = 250, 0, 0
    for repetition in range(repetitions):
        logit_P = generator.normal(-1, 1.5, 40)
        a_runs, b_runs = trained(generator, logit_P, 3), trained(generator, logit_P, 3)
        found = method_difference(a_runs, b_runs, (1,), resamples=1500, seed=repetition)
        covered += bool(found.low_K[0] <= 0 <= found.high_K[0])
        a, b = (pooled([run[0] for run in runs]) for runs in (a_runs, b_runs))
        naive = paired_difference(a, b, (1,), resamples=400, seed=repetition)
        covered_naively += bool(naive.low_K[0] <= 0 <= naive.high_K[0])
    assert covered / repetitions >= 0.93
    assert covered_naively / repetitions < 0.6


def test_mean_and_p_value() -> None:
    generator = np.random.default_rng(1)
    p_P = generator.beta(2, 3, 30)
    runs = [[counts(generator.binomial(256, p_P), 256)] for _ in range(3)]
    better = [[counts(generator.binomial(256, p_P / 2 + 0.5), 256)] for _ in range(2)]
    found = method_difference(better, runs, (1, 4))
    expected = np.mean([r[0].c_P for r in better]) / 256 - np.mean([r[0].c_P for r in runs]) / 256
    assert found.mean_K[0] == pytest.approx(expected, abs=1e-14)
    assert found.runs == (2, 3)
    assert found.p_K[0] < 0.05
    assert found.low_K[0] > 0
    same = method_difference(runs, runs, (1, 4))
    np.testing.assert_array_equal(same.mean_K, [0, 0])
    assert (same.p_K > 0.9).all()
    assert (same.p_K <= 1).all()


def test_one_run_is_not_a_method() -> None:
    run = [counts(np.array([1, 2]), 4)]
    with pytest.raises(MetricError, match="got 1 and 2 runs"):
        method_difference([run], [run, run], (1,))
