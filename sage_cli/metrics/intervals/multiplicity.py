"""Several tests at once: p-values that hold together."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sage_cli.metrics.counts import FloatArray


def holm(p: ArrayLike) -> FloatArray:
    """Holm's adjusted p-values, in the order and shape of `p` (Holm 1979, Scand. J. Statist. 6).

    The m-th smallest of M is multiplied by M - m + 1, and none is smaller than one before it.
    Rejecting where the adjusted value is at most alpha rejects any true hypothesis with
    probability alpha at most, however the tests depend on each other. NaN is no test: it stays
    NaN and isn't counted.
    """
    adjusted = np.array(p, float)
    known = ~np.isnan(adjusted)
    values = adjusted[known]
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    values[order] = np.minimum(stepped, 1.0)
    adjusted[known] = values
    return adjusted
