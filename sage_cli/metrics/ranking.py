"""Which of many models can't be told apart from the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.bands import pass_matrix
from sage_cli.metrics.counts import Counts
from sage_cli.metrics.precision import precision


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
    means = [pass_matrix(one, (k,)).mean() for one in models]
    best = int(np.argmax(means))
    pairs = len(models) * (len(models) - 1) / 2
    alike, errors = [], []
    for place, one in enumerate(models):
        found = precision([([[models[best]]], [[one]])], (k,))
        if not found.p()[0] * pairs <= 1 - confidence:  # NaN is no evidence
            alike.append(place)
        if place != best:
            errors.append(found.error_K[0])
    known = [error for error in errors if not np.isnan(error)]
    return Ranking(best, tuple(alike), float(np.median(known)) if known else np.nan, confidence)
