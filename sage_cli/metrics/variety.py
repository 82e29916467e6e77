"""How many different things a problem's samples show, and how evenly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sage_cli.metrics.estimator import pass_at_k


def entropy_of_counts(counts: Sequence[int]) -> float:
    """-sum f log f over the shares of counts, in nats; NaN where nothing was counted.

    The plug-in value: low by about (kinds - 1) / 2n, so that equal n are to be compared.
    """
    count = np.array([one for one in counts if one], float)
    if not len(count):
        return float("nan")
    share = count / count.sum()
    return float(-(share * np.log(share)).sum() + 0.0)


def distinct_of(counts: Sequence[int], k: int) -> float:
    """How many kinds to expect among k draws without replacement (Hurlbert 1971); NaN if k > n.

    Each kind of which there are c is met with the chance that pass@k gives it.
    """
    n = sum(counts)
    if k > n:
        return float("nan")
    return float(pass_at_k(np.full(len(counts), n), np.array(counts, int), k).sum())
