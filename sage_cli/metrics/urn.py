"""What two models' counts would be if they were one model: draws from one urn per problem."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import lgamma

import numpy as np

from sage_cli.metrics.counts import Counts, FloatArray, IntArray


def urn_counts(base: Counts, run: Counts) -> Iterator[tuple[IntArray, FloatArray]]:
    """For each problem how many right samples the base may have got, and with what chance.

    All right samples of a problem, the base's and the run's, lie in one urn with the wrong ones,
    and the base draws its n: the hypergeometric distribution. Both must have the same problems in
    the same order.
    """
    columns = (base.n_P, base.c_P, run.n_P, run.c_P)
    for n, c, other_n, other_c in zip(*(column.tolist() for column in columns), strict=True):
        yield _hypergeometric(n, other_n, c + other_c)


@lru_cache(maxsize=4096)
def _hypergeometric(n: int, other: int, right: int) -> tuple[IntArray, FloatArray]:
    """Right ones among the first n of n + other samples, of which `right` are right."""
    count_C = np.arange(max(0, right - other), min(n, right) + 1)
    logs_C = np.array([_log_choose(n, k) + _log_choose(other, right - k) for k in count_C.tolist()])
    chance_C = np.exp(logs_C - logs_C.max())
    return count_C, chance_C / chance_C.sum()


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
