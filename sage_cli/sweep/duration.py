"""How long a sweep will take, from how long the latest runs of its kind took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sage_cli.config.schema import SageConfig
from sage_cli.store.runs.run import Run, Runs

LATEST = 5
"""How many runs are asked."""
_SHAPE = (
    ("rl", "prompts_per_step"),
    ("rl", "rollouts_per_prompt"),
    ("rl", "iterations"),
    ("rl", "processes"),
    ("rollout", "max_tokens"),
    ("rollout", "backend"),
)
"""Settings that decide how long a step takes, beside the model."""


@dataclass(frozen=True)
class Duration:
    """Seconds of all trainings one after the other, and of all together with so many places."""

    task_s: float
    wall_s: float
    runs: int
    """How many runs the estimate rests on."""


def seconds_per_step(runs: Runs, config: SageConfig) -> tuple[float, int] | None:
    """The mean over the latest finished runs with the same model and batch; None without any."""
    wanted = _shape(config.model_dump(mode="json"))
    found = [each for run in reversed(runs.whole()) if (each := _per_step(run, wanted)) is not None]
    latest = found[:LATEST]
    return (sum(latest) / len(latest), len(latest)) if latest else None


def duration(steps: Sequence[int], places: int, per_step: tuple[float, int]) -> Duration:
    """Of trainings of so many `steps` each, their measurements left out."""
    seconds, runs = per_step
    total = seconds * sum(steps)
    longest = seconds * max(steps, default=0)
    return Duration(total, max(longest, total / max(1, min(places, len(steps)))), runs)


def _per_step(run: Run, wanted: object) -> float | None:
    manifest = run.manifest
    if not run.finished or manifest.get("kind") != "rl" or not manifest.get("seconds"):
        return None
    config = run.config
    steps = config.get("rl", {}).get("steps")
    return float(manifest["seconds"]) / steps if steps and _shape(config) == wanted else None


def _shape(config: dict[str, dict[str, object]]) -> object:
    return config.get("model"), [config.get(section, {}).get(key) for section, key in _SHAPE]
