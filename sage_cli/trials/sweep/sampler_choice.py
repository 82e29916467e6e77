"""The sampler that a sweep's space and objectives allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from sage_cli.errors import ConfigurationError
from sage_cli.settings.sweep import SamplerName
from sage_cli.trials.sweep.space import Space

_ALL_AT_ONCE = ("qmc", "gp", "cmaes")
"""Samplers that model all parameters at once, and sample those that some points lack at random."""


def choose_sampler(name: str | None, space: Space, objectives: Sequence[str]) -> str:
    """Return `name`, or where it is None `grid` for lists of values and `tpe` for ranges.

    Raises ConfigurationError if that sampler can't search `space`, with those that can.
    """
    chosen = name or ("tpe" if space.ranges else "grid")
    reason = _reason_against(chosen, space, objectives)
    if reason:
        names = get_args(SamplerName)
        able = [name for name in names if not _reason_against(name, space, objectives)]
        remedy = f"choose --sampler {', '.join(able)}"
        if chosen == "grid":
            remedy = f"write values, for example {space.ranges[0]}=0.1|0.2|0.3, or {remedy}"
        raise ConfigurationError(f"the sampler {chosen} {reason}", remedy)
    return chosen


def _reason_against(sampler: str, space: Space, objectives: Sequence[str]) -> str | None:
    """Return why a sampler can't search `space`; None if it can."""
    if sampler == "grid" and space.ranges:
        return f"needs a list of values for {' and '.join(space.ranges)}, not a range"
    if sampler in _ALL_AT_ONCE and space.conditional:
        return f"needs every parameter in every point, but some points lack {space.conditional[0]}"
    if sampler != "cmaes":
        return None
    if len(objectives) > 1:
        return f"takes one objective, not {len(objectives)}: {', '.join(objectives)}"
    if words := [name for name, values in space.lists.items() if not values.numeric]:
        return f"searches numbers only, and {' and '.join(words)} has words or switches"
    return "needs at least two parameters" if len(space.parameters) < 2 else None
