"""pass@k from exact chances: of right workings alone, or with all other texts from samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.counts import FloatArray, IntArray
from sage_cli.metrics.counts.estimator import pass_at_k

VANISHING = 1e-4
"""Below this chance that k samples hold no listed text, pass@k is 1 whatever the others are."""


def worked_pass_at_k(p_P: FloatArray, ks: Sequence[int]) -> FloatArray:
    """Return 1 - (1 - p)^k, shape (P, K): the chance that one of k samples is a listed text."""
    with np.errstate(divide="ignore"):
        log_none_P1 = np.log1p(-np.clip(p_P, 0.0, 1.0))[:, None]
    worked_PK: FloatArray = -np.expm1(log_none_P1 * np.asarray(ks))
    return worked_PK


def exact_pass_at_k(
    p_P: FloatArray, others_P: IntArray, right_P: IntArray, ks: Sequence[int]
) -> FloatArray:
    """Return unbiased pass@k, shape (P, K): listed texts exactly, all others from samples.

    `others_P` of a problem's samples are none of the listed texts, which have the chance `p_P`
    together; `right_P` of these are right. The chance that none of k is right is
    (1 - p)^k C(m - c, k) / C(m, k), because given their number the other samples are independent
    draws of the other texts. NaN where m < k, unless (1 - p)^k is below `VANISHING`.
    """
    none_PK = 1 - worked_pass_at_k(p_P, ks)
    passed_PK = np.full(none_PK.shape, np.nan)
    for column, k in enumerate(ks):
        enough_P = others_P >= k
        if enough_P.any():
            found_P = pass_at_k(others_P[enough_P], right_P[enough_P], k)
            passed_PK[enough_P, column] = 1 - none_PK[enough_P, column] * (1 - found_P)
    gone_PK = np.isnan(passed_PK) & (none_PK < VANISHING)
    return np.where(gone_PK, 1.0, passed_PK)


@dataclass(frozen=True, eq=False)
class Worked:
    """Chances of a right text of each problem, of a policy and of its initial policy, (T, P).

    T ascending temperatures, the `at`-th of which is the evaluation's.
    """

    problem_ids: tuple[str, ...]
    policy_TP: FloatArray
    initial_TP: FloatArray
    at: int

    def __len__(self) -> int:
        return len(self.problem_ids)

    def ordered(self, problem_ids: Sequence[str]) -> Worked:
        """Return the chances in the order of `problem_ids`, which name exactly these problems."""
        if tuple(problem_ids) == self.problem_ids:
            return self
        if sorted(problem_ids) != sorted(self.problem_ids):
            raise MetricError(
                f"exact chances are of {len(self)} problems, and others are compared",
                "read the chances of all policies on the same problems",
            )
        places = [self.problem_ids.index(id_) for id_ in problem_ids]
        return replace(
            self,
            problem_ids=tuple(problem_ids),
            policy_TP=self.policy_TP[:, places],
            initial_TP=self.initial_TP[:, places],
        )

    def pass_at_k(self, ks: Sequence[int]) -> FloatArray:
        """Return worked pass@k at the evaluation's temperature, (P, K)."""
        return worked_pass_at_k(self.policy_TP[self.at], ks)

    def points(self, chances_TP: FloatArray, k: int) -> tuple[FloatArray, FloatArray]:
        """Return pass@1 and worked pass@k of each problem at each temperature, both (P, T)."""
        passed = [worked_pass_at_k(p_P, [1, k]) for p_P in chances_TP]
        accuracy_TP, pass_TP = np.moveaxis(np.stack(passed), 2, 0)
        return accuracy_TP.T, pass_TP.T
