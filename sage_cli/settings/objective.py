"""The objective of a sweep: pass@k by samples or by exact chances, a gain, or a weighted sum."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

Measure = Literal["pass", "exact", "gain"]
"""`pass`: pass@k from samples. `exact`: worked pass@k from exact chances. `gain`: the same less the
initial policy's, where both have the same pass@1 over temperatures."""
_TERM = re.compile(
    r"(?:(?P<weight>\d+(?:\.\d*)?|\.\d+)\*)?(?P<measure>pass|exact|gain)@(?P<k>[1-9]\d*)"
)


@dataclass(frozen=True)
class Objective:
    """The `weights` of a measure by k; `name` is the objective as it was written."""

    name: str
    weights: Mapping[int, float]
    measure: Measure = "pass"

    @property
    def samples_needed(self) -> int:
        """The number of samples per problem that the objective needs at least."""
        return max(self.weights) if self.measure == "pass" else 1

    @property
    def terms(self) -> dict[int, str]:
        """The names of what it is a sum of, as `pass@8`, by k."""
        return {k: f"{self.measure}@{k}" for k in self.weights}

    def value(self, measured: Mapping[str, float]) -> float:
        """Return the weighted sum, from values by name, as `pass@8`."""
        return sum(weight * measured[self.terms[k]] for k, weight in self.weights.items())


def parse_objective(text: str) -> Objective:
    """Return the objective that `text` means: `pass@8`, `gain@256`, `0.5*pass@1+0.5*pass@64`.

    Raises ValueError for anything else.
    """
    name = "".join(text.split())
    weights: dict[int, float] = {}
    measures: set[str] = set()
    for part in name.split("+"):
        term = _TERM.fullmatch(part)
        if term is None:
            raise ValueError(
                f"'{text}' is no objective: write pass@k, exact@k or gain@k, or a sum as "
                "0.5*pass@1+0.5*pass@64"
            )
        k, weight = int(term["k"]), float(term["weight"] or 1)
        measures.add(term["measure"])
        if k in weights:
            raise ValueError(f"'{text}' names {term['measure']}@{k} twice")
        if weight == 0:
            raise ValueError(f"'{text}' gives {term['measure']}@{k} no weight")
        weights[k] = weight
    if len(measures) > 1:
        raise ValueError(f"'{text}' adds {' and '.join(sorted(measures))}: one sum has one of them")
    return Objective(name, weights, cast(Measure, measures.pop()))
