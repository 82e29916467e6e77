"""What a sweep maximises, such as pass@8 or a weighted sum."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_TERM = re.compile(r"(?:(?P<weight>\d+(?:\.\d*)?|\.\d+)\*)?pass@(?P<k>[1-9]\d*)")


@dataclass(frozen=True)
class Objective:
    """The `weights` of pass@k by k; `name` is the objective as it was written."""

    name: str
    weights: Mapping[int, float]

    @property
    def samples_needed(self) -> int:
        """The number of samples per problem that the objective needs at least."""
        return max(self.weights)

    @property
    def terms(self) -> dict[int, str]:
        """The names of what it is a sum of, such as `pass@8`, by k."""
        return {k: f"pass@{k}" for k in self.weights}

    def value(self, measured: Mapping[str, float]) -> float:
        """Return the weighted sum, from values by name, such as `pass@8`."""
        return sum(weight * measured[self.terms[k]] for k, weight in self.weights.items())


def parse_objective(text: str) -> Objective:
    """Return the objective that `text` means: `pass@8`, `0.5*pass@1+0.5*pass@64`.

    Raises ValueError for anything else.
    """
    name = "".join(text.split())
    weights: dict[int, float] = {}
    for part in name.split("+"):
        term = _TERM.fullmatch(part)
        if term is None:
            raise ValueError(
                f"'{text}' is not an objective: write pass@k, or a sum such as "
                "0.5*pass@1+0.5*pass@64"
            )
        k, weight = int(term["k"]), float(term["weight"] or 1)
        if k in weights:
            raise ValueError(f"'{text}' names pass@{k} twice")
        if weight == 0:
            raise ValueError(f"'{text}' gives pass@{k} no weight")
        weights[k] = weight
    return Objective(name, weights)
