"""A sweep's objective: pass@k, or a weighted sum of several."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_TERM = re.compile(r"(?:(?P<weight>\d+(?:\.\d*)?|\.\d+)\*)?pass@(?P<k>[1-9]\d*)")


@dataclass(frozen=True)
class Objective:
    """`weights` of pass@k by k; `name` is how it was written."""

    name: str
    weights: Mapping[int, float]

    @property
    def largest_k(self) -> int:
        """Return the least number of samples per problem that the objective needs."""
        return max(self.weights)

    def value(self, pass_at: Mapping[int, float]) -> float:
        """The sum, from pass@k by k."""
        return sum(weight * pass_at[k] for k, weight in self.weights.items())


def parse_objective(text: str) -> Objective:
    """`pass@8`, or terms with weights: `0.5*pass@1+0.5*pass@64`. Raises ValueError otherwise."""
    name = "".join(text.split())
    weights: dict[int, float] = {}
    for part in name.split("+"):
        term = _TERM.fullmatch(part)
        if term is None:
            raise ValueError(
                f"'{text}' is no objective: write pass@k, or a sum as 0.5*pass@1+0.5*pass@64"
            )
        k, weight = int(term["k"]), float(term["weight"] or 1)
        if k in weights:
            raise ValueError(f"'{text}' names pass@{k} twice")
        if weight == 0:
            raise ValueError(f"'{text}' gives pass@{k} no weight")
        weights[k] = weight
    return Objective(name, weights)
