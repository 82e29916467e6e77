"""Which of many models can't be told apart from the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.bands import pass_matrix
from sage_cli.metrics.counts import Counts
from sage_cli.metrics.student import two_sided_p


@dataclass(frozen=True)
class Ranking:
    """The best model's place, the places of all that may be as good, itself among them.

    `error` is the median standard error of a difference from the best, NaN where there is none.
    """

    best: int
    alike: tuple[int, ...]
    error: float
    confidence: float


def rank(models: Sequence[Counts], k: int, confidence: float = 0.95) -> Ranking:
    """Compare every model's pass@k with that of the one that looks best, on the same problems.

    Whichever looks best was lucky among all pairs: p-values (paired, Student's t) are multiplied by
    the number of pairs (Bonferroni), so that a model as good as all others is told apart from any
    with probability 1 - `confidence` at most.
    """
    ids = models[0].problem_ids
    values_PM = np.concatenate([pass_matrix(one.ordered(ids), (k,)) for one in models], axis=1)
    best = int(values_PM.mean(axis=0).argmax())
    error_M = np.full(len(models), np.nan)
    if len(ids) > 1:
        gap_PM = values_PM[:, [best]] - values_PM
        error_M = gap_PM.std(axis=0, ddof=1) / np.sqrt(len(ids))
    told_M = error_M > 0  # without an error there is no evidence
    freedom_M = np.full(int(told_M.sum()), len(ids) - 1.0)
    t_M = gap_PM.mean(axis=0)[told_M] / error_M[told_M] if told_M.any() else freedom_M
    pairs = len(models) * (len(models) - 1) / 2
    told_M[told_M] = two_sided_p(t_M, freedom_M) * pairs <= 1 - confidence
    known_M = error_M[error_M > 0]
    error = float(np.median(known_M)) if known_M.size else np.nan
    return Ranking(best, tuple(map(int, np.flatnonzero(~told_M))), error, confidence)
