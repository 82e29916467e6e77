"""Means of the estimators of Eq. 13 and of pass@k, by enumeration."""

from __future__ import annotations

from math import comb

import numpy as np

from sage_cli.metrics import pass_at_k
from sage_cli.theory.statement import Found, distance, statement

SAMPLES = 16
"""As in Table 2."""


@statement("pass@k", "pass@k", "as printed")
def unbiased_pass_at_k() -> float:
    """1 - C(n - c, k) / C(n, k) has the mean 1 - (1 - p)^k for every k up to n."""
    worst, counts = 0.0, np.arange(SAMPLES + 1)
    for chance in (0.01, 0.2, 0.7):
        weight_N = [comb(SAMPLES, c) * chance**c * (1 - chance) ** (SAMPLES - c) for c in counts]
        values_NK = pass_at_k(np.full(SAMPLES + 1, SAMPLES), counts, list(range(1, SAMPLES + 1)))
        expected_K = 1 - (1 - chance) ** np.arange(1, SAMPLES + 1)
        worst = max(
            worst, distance(np.asarray(weight_N) @ values_NK, np.asarray(expected_K, dtype=float))
        )
    return worst


@statement("pattern frequency", "13", "on a condition")
def pattern_frequency() -> Found:
    """Given one right solution the share that shows a pattern has the mean P(pattern | right); but
    a problem counts with chance 1 - (1 - p)^n, so that two policies are averaged over different
    problems.
    """
    shown = 0.3
    worst, known = 0.0, {}
    for right in (0.02, 0.6):
        share, counted = 0.0, 0.0
        for c in range(1, SAMPLES + 1):
            some = comb(SAMPLES, c) * right**c * (1 - right) ** (SAMPLES - c)
            for m in range(c + 1):
                share += some * comb(c, m) * shown**m * (1 - shown) ** (c - m) * m / c
            counted += some
        worst = max(
            worst, distance(share / counted, shown), distance(counted, 1 - (1 - right) ** SAMPLES)
        )
        known[f"chance to count, p = {right:g}"] = counted
    return worst, known
