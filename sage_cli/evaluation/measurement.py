"""What measuring a policy found, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sage_cli.metrics import Counts


@dataclass(frozen=True)
class Measurement:
    """One policy on one benchmark with one evaluation seed.

    `statuses` counts verdicts over all completions, `cut_off` those that met the token limit.
    """

    policy: str
    benchmark: str
    seed: int
    counts: Counts
    statuses: Mapping[str, int]
    cut_off: int
    sample_set: str


Measurements = Mapping[tuple[str, str], tuple[Measurement, ...]]
"""(benchmark, policy's label) -> one measurement per evaluation seed."""


def as_json(measurement: Measurement) -> dict[str, Any]:
    """A measurement for a JSON file: verdicts, and n and c of every problem."""
    counts = measurement.counts
    return {
        "seed": measurement.seed,
        "sample_set": measurement.sample_set,
        "statuses": dict(measurement.statuses),
        "truncated": measurement.cut_off,
        "problems": [
            {"problem": id_, "n": int(n), "c": int(c)}
            for id_, n, c in zip(counts.problem_ids, counts.n_P, counts.c_P, strict=True)
        ],
    }
