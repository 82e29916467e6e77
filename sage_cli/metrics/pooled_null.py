"""What two models' counts would be if they were one model: the base's counts under that null."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import lgamma, log

import numpy as np

from sage_cli.metrics.counts import Counts, FloatArray, IntArray
from sage_cli.metrics.verdicts import paired_grades


def null_counts(base: Counts, run: Counts) -> Iterator[tuple[IntArray, FloatArray]]:
    """For each problem how many right samples the base may have, and with what chance.

    The right samples of both are given. With paired verdicts, sample i of the base and sample i of
    the run share their random numbers, and one model's two verdicts may as well be swapped: of
    the pairs that differ the base has each right one with chance 1/2 (McNemar's test). Otherwise
    the samples are independent: all of a problem's samples lie in one urn, and the base draws its
    n (the hypergeometric distribution, Fisher's test). Both must have the same problems in the
    same order.
    """
    pairs = paired_grades(base, run)
    if pairs is not None:
        base_PN, run_PN = pairs
        both_P, differing_P = (base_PN & run_PN).sum(axis=1), (base_PN ^ run_PN).sum(axis=1)
        for both, differing in zip(both_P.tolist(), differing_P.tolist(), strict=True):
            count_C, chance_C = _swapped(differing)
            yield both + count_C, chance_C
        return
    columns = (base.n_P, base.c_P, run.n_P, run.c_P)
    for n, c, other_n, other_c in zip(*(column.tolist() for column in columns), strict=True):
        yield hypergeometric(n, other_n, c + other_c)


@lru_cache(maxsize=4096)
def _swapped(differing: int) -> tuple[IntArray, FloatArray]:
    """Right ones that the base has of the pairs that differ: Binomial(differing, 1/2)."""
    count_C = np.arange(differing + 1)
    logs_C = [_log_choose(differing, count) - differing * log(2) for count in count_C.tolist()]
    return count_C, np.exp(logs_C)


@lru_cache(maxsize=4096)
def hypergeometric(n: int, other: int, right: int) -> tuple[IntArray, FloatArray]:
    """Right ones among the first n of n + other samples, of which `right` are right."""
    count_C = np.arange(max(0, right - other), min(n, right) + 1)
    logs_C = np.array([_log_choose(n, k) + _log_choose(other, right - k) for k in count_C.tolist()])
    chance_C = np.exp(logs_C - logs_C.max())
    return count_C, chance_C / chance_C.sum()


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
