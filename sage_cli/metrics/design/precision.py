"""The precision of a design: standard errors and the differences that they let one detect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sage_cli.metrics.comparisons.differences import Difference
from sage_cli.metrics.comparisons.seed_noise import Pool, SideRuns, by_run, error_over
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.intervals.bands import pooled_variance
from sage_cli.metrics.intervals.distributions import two_sided_p, two_sided_reach

POWER = 0.8
"""The probability of detecting the smallest detectable difference."""


@dataclass(frozen=True, eq=False)
class Precision:
    """A less B in mean pass@k at each k, its standard error and that error's degrees of freedom.

    NaN where no error can be known: fewer than two problems, or no two that differ. `gap_PK` are
    the problems' differences where these alone are the error, on one benchmark.
    """

    mean_K: FloatArray
    error_K: FloatArray
    freedom_K: FloatArray
    gap_PK: FloatArray | None = None

    def smallest(self, confidence: float = 0.95, power: float = POWER) -> FloatArray:
        """The smallest true difference that a two-sided test finds with probability `power`.

        (t[1 - alpha/2] + t[power]) standard errors (Bloom 1995, Evaluation Review 19(5), "minimum
        detectable effects"): that far from 0 the estimate exceeds the test's threshold in `power`
        of all repetitions, as long as the error is the same. NaN where that is more than 1, which
        no difference can be.
        """
        smallest_K = self.error_K * (self._reach(1 - confidence) + self._reach(2 * (1 - power)))
        return np.where(smallest_K <= 1, smallest_K, np.nan)

    def detectable(self, difference: Difference, power: float = POWER) -> FloatArray:
        """The same for the test of `difference`, whose interval may be wider than Student's.

        Its test finds a difference once the interval's end on that side passes 0. So the smallest
        one is the reach of that interval, and t[power] times the error of its end. That error is
        smaller than that of the mean where few problems differ, since the reach grows with what
        they add; the delta method takes off too much, as the skewness is an estimate itself, and
        the middle of both is used. Simulated power at the stated value: docs/results/coverage.md.
        """
        reach_K = np.where(
            self.mean_K < 0, difference.high_K - self.mean_K, self.mean_K - difference.low_K
        )
        students_K = self._reach(1 - difference.confidence) * self.error_K
        end_K = self._end_error(np.minimum(reach_K, students_K))
        smallest_K = reach_K + self._reach(2 * (1 - power)) * end_K
        return np.where(smallest_K <= 1, smallest_K, np.nan)

    def _end_error(self, reach_K: FloatArray) -> FloatArray:
        """Between the error of the mean and that of mean - reach, the reach as its error varies.

        With d the problems' deviations towards the mean, the latter is the error of
        d - reach (d^2 / variance - 1) / 2. The reach is Student's at most: the part beyond is
        there for unseen problems and doesn't vary.
        """
        if self.gap_PK is None:
            return self.error_K
        off_PK = (self.gap_PK - self.mean_K) * np.where(self.mean_K < 0, -1, 1)
        variance_K = off_PK.var(axis=0, ddof=1)
        scale_K = np.divide(reach_K, variance_K, out=np.zeros_like(reach_K), where=variance_K > 0)
        end_PK = off_PK - scale_K * off_PK**2 / 2
        end_K: FloatArray = end_PK.std(axis=0, ddof=1) / np.sqrt(len(off_PK))
        return (self.error_K + end_K) / 2

    def interval(self, confidence: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Student's interval of the difference, within [-1, 1]."""
        half_K = self._reach(1 - confidence) * self.error_K
        return np.maximum(self.mean_K - half_K, -1), np.minimum(self.mean_K + half_K, 1)

    def p(self) -> FloatArray:
        """Two-sided p-values of "no difference" by Student's t; NaN without an error."""
        return two_sided_p(self.mean_K / self.error_K, self.freedom_K)

    def _reach(self, alpha: float) -> FloatArray:
        """The t that |T| exceeds with probability `alpha`; NaN without an error."""
        return two_sided_reach(alpha, self.freedom_K)


def precision(
    benchmarks: Sequence[tuple[SideRuns, SideRuns]], ks: Sequence[int], pool: Pool | None = None
) -> Precision:
    """The difference of two sides, and of its unweighted mean over several benchmarks.

    Where a side has several training seeds the error is `seed_noise.error_over`'s, as in the
    interval that `compare` prints; `pool` is as there. Else it is that of the problems, benchmark
    by benchmark (their differences vary by their sampling as well), with Satterthwaite's (1946)
    degrees of freedom.
    """
    sides = []
    for a_runs, b_runs in benchmarks:
        ids = a_runs[0][0].problem_ids
        sides.append((by_run(a_runs, ids, ks), by_run(b_runs, ids, ks)))
    gaps = [a_IPK.mean(axis=0) - b_IPK.mean(axis=0) for a_IPK, b_IPK in sides]
    mean_K = np.mean([gap_PK.mean(axis=0) for gap_PK in gaps], axis=0)
    several = max(map(len, sides[0])) > 1 and min(map(len, gaps)) > 1
    error_K, freedom_K = error_over(sides, pool) if several else _problems_alone(gaps)
    seen_K = error_K > 0
    return Precision(
        mean_K,
        np.where(seen_K, error_K, np.nan),
        np.where(seen_K, freedom_K, np.nan),
        gaps[0] if len(gaps) == 1 and not several else None,
    )


def _problems_alone(gaps: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Standard error and degrees of freedom of the mean over benchmarks, for these very models."""
    parts = [(pooled_variance([gap]) / (len(gap) * len(gaps) ** 2), len(gap) - 1) for gap in gaps]
    variance_K = np.sum([part_K for part_K, _ in parts], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        squares_K = np.sum([part_K**2 / max(f, 1) for part_K, f in parts], axis=0)
        return np.sqrt(variance_K), variance_K**2 / squares_K
