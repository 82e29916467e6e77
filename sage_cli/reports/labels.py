"""Labels in tables and figures: of runs, whose training seeds belong together, or of a mean."""

from __future__ import annotations

from collections.abc import Sequence

AVERAGE = "average"
"""The mean over benchmarks, which all have the same weight."""
_SEED = ", seed "


def seed_title(method: str, seed: int) -> str:
    """Return a run's label, such as `grpo-branch, seed 2`."""
    return f"{method}{_SEED}{seed}"


def by_method(labels: Sequence[str]) -> dict[str, list[str]]:
    """Return method -> its series in order; a label without a seed is a method of its own.

    Labels that a user gives are read alike: `RUN=branch, seed 2`.
    """
    methods: dict[str, list[str]] = {}
    for label in labels:
        method, _, seed = label.rpartition(_SEED)
        methods.setdefault(method if method and seed.isdigit() else label, []).append(label)
    return methods
