"""What the series of a table or a picture are called: a method, and which of its trainings."""

from __future__ import annotations

from collections.abc import Sequence

_SEED = ", seed "


def seeded(method: str, seed: int) -> str:
    """`grpo-branch, seed 2`."""
    return f"{method}{_SEED}{seed}"


def by_method(labels: Sequence[str]) -> dict[str, list[str]]:
    """Method -> its series, in the order in which they are shown; without a seed it is one alone.

    Whoever labels runs by hand has it as well: `RUN=branch, seed 2`.
    """
    found: dict[str, list[str]] = {}
    for label in labels:
        method, _, seed = label.rpartition(_SEED)
        found.setdefault(method if method and seed.isdigit() else label, []).append(label)
    return found
