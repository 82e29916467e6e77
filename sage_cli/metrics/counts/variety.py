"""The variety of a problem's samples: the number of kinds, and how evenly they occur."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sage_cli.metrics.counts.estimator import pass_at_k


def entropy_of_counts(counts: Sequence[int]) -> float:
    """-sum f log f over the shares of counts, in nats; NaN where nothing was counted.

    The plug-in value: low by about (kinds - 1) / 2n, so that equal n are to be compared.
    """
    count = np.array([count for count in counts if count], float)
    if not len(count):
        return float("nan")
    share = count / count.sum()
    return float(-(share * np.log(share)).sum() + 0.0)


def distinct_of(counts: Sequence[int], k: int) -> float:
    """The expected number of kinds among k samples without replacement (Hurlbert 1971).

    NaN if k > n. A kind with c samples is met with the probability that pass@k gives it.
    """
    n = sum(counts)
    if k > n:
        return float("nan")
    return float(pass_at_k(np.full(len(counts), n), np.array(counts, int), k).sum())
