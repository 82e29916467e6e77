"""Two methods compared over their training seeds: seed and problem both random."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.bands import pass_matrix
from sage_cli.metrics.comparison import Difference
from sage_cli.metrics.counts import Counts, FloatArray
from sage_cli.metrics.resampling import resampled_means

Run = Sequence[Counts]
"""One training seed: its counts, one for each evaluation seed."""


def method_difference(
    a_runs: Sequence[Run],
    b_runs: Sequence[Run],
    ks: Sequence[int],
    *,
    confidence: float = 0.95,
    resamples: int = 20_000,
    seed: int = 0,
) -> Difference:
    """Method A less method B, with the uncertainty that other seeds and other problems bring.

    Three independent parts are added up: the problems, resampled (both methods share them), and
    for each method the mean over its T runs, whose error is s / sqrt(T) times Student's t with
    T - 1 degrees of freedom (the Behrens-Fisher problem in Fisher's form). Three runs cannot be
    resampled: 3 draws of 3 show two thirds of their variance. What sampling noise puts into both
    parts is counted twice, so the interval is slightly too wide, never too narrow. `p_K` is
    twice the share of the draws on the far side of 0.

    Raises MetricError for fewer than two runs of either method or two problems.
    """
    if min(len(a_runs), len(b_runs)) < 2:
        raise MetricError(
            "a method needs at least two training seeds to be compared as a method; "
            f"got {len(a_runs)} and {len(b_runs)} runs",
            "name more runs as A1,A2,A3 B1,B2,B3, or compare one run with one run",
        )
    ids = a_runs[0][0].problem_ids
    a_TPK, b_TPK = _stacked(a_runs, ids, ks), _stacked(b_runs, ids, ks)
    gap_PK = a_TPK.mean(axis=0) - b_TPK.mean(axis=0)
    if len(gap_PK) < 2:
        raise MetricError("one problem alone says nothing about other problems")
    generator = np.random.default_rng(seed)
    draws_RK = resampled_means(gap_PK, resamples=resamples, seed=seed)
    for runs_TPK in (a_TPK, b_TPK):
        means_TK = runs_TPK.mean(axis=1)
        T = len(means_TK)
        error_K = means_TK.std(axis=0, ddof=1) / np.sqrt(T)
        draws_RK += generator.standard_t(T - 1, size=(resamples, 1)) * error_K
    tail = (1 - confidence) / 2
    low_K, high_K = np.quantile(draws_RK, [tail, 1 - tail], axis=0)
    far_K = np.minimum((draws_RK <= 0).sum(axis=0), (draws_RK >= 0).sum(axis=0))
    p_K = np.minimum(1.0, 2 * (far_K + 1) / (resamples + 1))
    return Difference(
        tuple(map(int, ks)), gap_PK.mean(axis=0), low_K, high_K, p_K, confidence, len(gap_PK),
        (len(a_runs), len(b_runs)),
    )  # fmt: skip


def _stacked(runs: Sequence[Run], ids: Sequence[str], ks: Sequence[int]) -> FloatArray:
    return np.stack([pass_matrix([seed.ordered(ids) for seed in run], ks) for run in runs])
