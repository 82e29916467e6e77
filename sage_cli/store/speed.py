"""What a training's records say of its speed and memory, summed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

_TYPICAL = ("time/step_s", "time/generated_tokens_per_s", "time/trained_tokens_per_s")
_PHASES = ("generate", "sync", "grade", "reference", "loss")


def speed_figures(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The median step's seconds and tokens a second, each phase's share of all time, peak memory.

    Nothing of what the records don't hold, as those of supervised training or earlier releases.
    """
    found = {}
    for name in _TYPICAL:
        if values := [float(record[name]) for record in records if name in record]:
            found[name.replace("time/", "speed/")] = median(values)
    timed = [record for record in records if "time/loss_s" in record]
    if total_s := sum(record["time/step_s"] for record in timed):
        for phase in _PHASES:
            share = sum(record[f"time/{phase}_s"] for record in timed) / total_s
            found[f"speed/share/{phase}"] = share
    if peaks := [float(r["memory/peak_gib"]) for r in records if "memory/peak_gib" in r]:
        found["memory/peak_gib"] = max(peaks)
    return found
