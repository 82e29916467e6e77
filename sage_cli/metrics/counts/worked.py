"""Exact chances of a policy beside its initial policy's: what an objective is computed from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sage_cli.errors import MetricError
from sage_cli.metrics.counts.counts import FloatArray
from sage_cli.metrics.counts.exact import worked_pass_at_k


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
