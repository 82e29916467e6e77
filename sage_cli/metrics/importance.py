"""Which searched parameters matter: partial F tests in an additive fit of ranks.

An approximate test on ranks (Conover and Iman 1981) asks nothing of the values' scale, so a trial
that collapsed counts as the last one and no more. Intervals are those of the noncentral F
distribution (Steiger 2004).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals import holm

SPARE = 3
"""Degrees of freedom that the fit has to leave to the noise."""
LEVEL = 0.05
"""The chance that a parameter of a space without effects is seen."""


@dataclass(frozen=True)
class Effect:
    """A parameter's share of what the other parameters leave unexplained, with its 95 % interval.

    `p` is Holm's over the parameters. The share is of the variance of the trials' ranks.
    """

    share: float
    low: float
    high: float
    p: float

    @property
    def seen(self) -> bool:
        """Return True if it is distinguishable from no effect."""
        return self.p <= LEVEL


def fewest_trials(columns: int) -> int:
    """Return the number of trials that the effects of so many columns need."""
    return 1 + columns + SPARE


def numeric_column(values: Sequence[float]) -> FloatArray:
    """Return a number's linear and quadratic part (M, 2); (M, 1) if it has two values only.

    Searched logarithms are to be taken before.
    """
    value_M = np.asarray(values, dtype=float)
    distinct = len(np.unique(value_M))
    if distinct < 2:
        return np.zeros((len(value_M), 0))
    scaled_M = (value_M - value_M.mean()) / np.ptp(value_M)
    return np.stack([scaled_M, scaled_M**2][: min(2, distinct - 1)], axis=1)


def category_column(values: Sequence[object]) -> FloatArray:
    """Return an indicator of each category but the first (M, categories - 1)."""
    names = list(dict.fromkeys(values))
    return np.array([[float(value == name) for name in names[1:]] for value in values]).reshape(
        len(values), len(names) - 1
    )


def effects(columns: Mapping[str, FloatArray], value_M: FloatArray) -> dict[str, Effect]:
    """Return each parameter's effect on the ranks of the values, given all other parameters.

    Empty with fewer than `fewest_trials` trials or equal values. A parameter that was not varied,
    or only together with others, is left out.
    """
    from scipy.stats import f, rankdata

    count = sum(column_MA.shape[1] for column_MA in columns.values())
    if len(value_M) < fewest_trials(count) or np.ptp(value_M) == 0:
        return {}
    rank_M = rankdata(value_M)
    rank_M = rank_M - rank_M.mean()
    whole = _fit(columns.values(), rank_M)
    free = len(value_M) - 1 - whole.parameters
    tests = {}
    for name in columns:
        rest = _fit((column for other, column in columns.items() if other != name), rank_M)
        own = whole.parameters - rest.parameters
        if own == 0:
            continue
        noise = max(whole.residual, 1e-12 * float(rank_M @ rank_M)) / free
        ratio = max(0.0, rest.residual - whole.residual) / own / noise
        tests[name] = (ratio, own, float(f.sf(ratio, own, free)))
    corrected = dict(zip(tests, holm([p for _, _, p in tests.values()]), strict=True))
    return {
        name: Effect(
            max(0.0, own * (ratio - 1) / (own * ratio + free)),
            *_interval(ratio, own, free),
            float(corrected[name]),
        )
        for name, (ratio, own, _) in tests.items()
    }


@dataclass(frozen=True)
class _Fit:
    residual: float
    parameters: int


def _fit(columns: Iterable[FloatArray], rank_M: FloatArray) -> _Fit:
    """Return the residual sum of squares of a fit with an intercept, and its rank without that."""
    parts = [column_MA - column_MA.mean(axis=0) for column_MA in columns]
    design_MA = np.concatenate([np.zeros((len(rank_M), 1)), *parts], axis=1)
    left_MA, scale_A, _ = np.linalg.svd(design_MA, full_matrices=False)
    kept = scale_A > 1e-9 * max(1.0, scale_A[0])
    explained_A = left_MA[:, kept].T @ rank_M
    return _Fit(float(rank_M @ rank_M - explained_A @ explained_A), int(kept.sum()))


def _interval(ratio: float, own: int, free: int) -> tuple[float, float]:
    """Return the shares l / (l + M) at the ends of the 95 % interval of the noncentrality l."""
    from scipy.optimize import brentq
    from scipy.stats import f, ncf

    count = own + free + 1

    def end(tail: float) -> float:
        def apart(l: float) -> float:  # noqa: E741
            below = f.cdf(ratio, own, free) if l == 0 else ncf.cdf(ratio, own, free, l)
            return float(below) - tail

        if apart(0.0) <= 0:
            return 0.0
        most = 1.0
        while apart(most) > 0 and most < 1e6:
            most *= 2
        noncentrality = float(brentq(apart, 0.0, most)) if apart(most) <= 0 else most
        return noncentrality / (noncentrality + count)

    return end(0.975), end(0.025)
