"""Which sampler chooses the cells of a space, and which of them can't."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.errors import ConfigurationError
from sage_cli.sweep.space import Space, Values


def choose_sampler(name: str | None, space: Space, objectives: Sequence[str]) -> str:
    """`name`, or where it is None `grid` for values and `tpe` for ranges.

    Raises ConfigurationError where that sampler can't search `space`, and names those that can.
    """
    chosen = name or ("tpe" if space.ranges else "grid")
    reason = _reason_against(chosen, space, objectives)
    if reason:
        able = [one for one in SAMPLERS if not _reason_against(one, space, objectives)]
        remedy = f"choose --sampler {', '.join(able)}"
        if chosen == "grid":
            first = space.ranges[0]
            remedy = f"write values, as {first}=0.1|0.2|0.3, or {remedy}"
        raise ConfigurationError(f"the sampler {chosen} {reason}", remedy)
    return chosen


SAMPLERS = ("grid", "random", "qmc", "tpe", "gp", "cmaes", "nsga2")
_MODEL_OF_ALL = ("qmc", "gp", "cmaes")
"""Samplers that see all parameters at once, and draw at random those that some cells don't have."""


def _reason_against(sampler: str, space: Space, objectives: Sequence[str]) -> str | None:
    if sampler == "grid" and space.ranges:
        names = " and ".join(space.ranges)
        return f"takes every value of each parameter, and {names} has a range"
    if sampler in _MODEL_OF_ALL and space.conditional:
        return (
            f"wants every parameter in every cell, and {space.conditional[0]} exists in some only"
        )
    if sampler != "cmaes":
        return None
    if len(objectives) > 1:
        return f"takes one objective, and there are {len(objectives)}: {', '.join(objectives)}"
    words = [
        name
        for name, one in space.parameters.items()
        if isinstance(one, Values) and not one.numeric
    ]
    if words:
        return f"searches numbers alone, and {' and '.join(words)} has values that are none"
    return "needs two parameters at least" if len(space.parameters) < 2 else None
