"""Visits: how a training met its problems, in the order of its steps, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sage_cli.metrics.counts import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Visits:
    """A visit V is a problem's completions in one step: `n_V`, of which `right_V` are right.

    Steps rise along V; `problem_V` numbers the problems from 0.
    """

    step_V: IntArray
    problem_V: IntArray
    n_V: IntArray
    right_V: IntArray

    @cached_property
    def problems(self) -> int:
        """The number of problems that were visited."""
        return len(np.unique(self.problem_V))

    @cached_property
    def first(self) -> IntArray:
        """Return each problem's first visit."""
        return np.unique(self.problem_V, return_index=True)[1]

    @cached_property
    def last(self) -> IntArray:
        """Return each problem's last visit."""
        return len(self.problem_V) - 1 - np.unique(self.problem_V[::-1], return_index=True)[1]

    @cached_property
    def solved(self) -> np.ndarray:
        """Return at which visits at least one completion was right."""
        return self.right_V > 0

    @cached_property
    def discovery(self) -> IntArray:
        """Return the visits at which a problem was solved for the first time."""
        solving = np.flatnonzero(self.solved)
        return np.sort(solving[np.unique(self.problem_V[solving], return_index=True)[1]])

    @cached_property
    def next_of(self) -> tuple[IntArray, IntArray]:
        """Return pairs of visits: one, and the same problem's next."""
        order = np.argsort(self.problem_V, kind="stable")
        same = self.problem_V[order[1:]] == self.problem_V[order[:-1]]
        return order[:-1][same], order[1:][same]

    def solved_by(self, at_V: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (x, y): the value of `at_V` at each discovery, and the problems solved by then.

        `at_V` rises along the visits, as steps do or completions so far.
        """
        x = np.append(at_V[self.discovery], at_V[-1:]).astype(float)
        y = np.append(np.arange(1, len(self.discovery) + 1), len(self.discovery)).astype(float)
        return x, y

    def rates(self) -> tuple[FloatArray, FloatArray]:
        """Return pass rates at the first and the last visit of problems with more than one."""
        often = self.first != self.last
        rate_V = self.right_V / self.n_V
        return rate_V[self.first[often]], rate_V[self.last[often]]
