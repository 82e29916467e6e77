"""Something that wastes a training run, as a preflight finds it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something that wastes a run: its cause and what to type; `stops` if the run can't go on."""

    stops: bool
    cause: str
    remedy: str
