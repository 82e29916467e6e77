"""The time of trainings and samples, as runs that are there took it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.metrics.design.cheapest import Seconds
from sage_cli.settings.sections.model import PretrainedModel, ScratchModel
from sage_cli.store.runs.run import Run, Runs

LATEST = 5
"""Runs of a kind over which times are averaged."""
_GRADED = ("time/generate_s", "time/grade_s")


def measured_seconds(root: Path, model: PretrainedModel | ScratchModel) -> tuple[Seconds, str]:
    """Return the mean times of the latest finished runs of `model` below `root`, and their source.

    A sample's time is that of rollouts, sampled and graded. Raises StoreError without such runs.
    """
    shape = model.model_dump(mode="json")
    finished = [run for run in reversed(Runs(root).whole()) if run.finished]
    own = [run for run in finished if run.config.get("model") == shape]
    policies, trained = ([run for run in own if run.manifest.get("kind") == kind][:LATEST]
                         for kind in ("sft", "rl"))  # fmt: skip
    sample = _sample(trained)
    if not policies or sample is None:
        raise StoreError(
            f"no finished training by SFT and by RL of this model is in {root}, so nothing says "
            "how long they take",
            "give the seconds: --seconds INITIAL,TRAINING,SAMPLE, as 60,120,0.001",
        )
    source = f"measured on the latest {len(policies)} SFT and {len(trained)} RL runs"
    return Seconds(_mean(policies), _mean(trained), sample), source


def typed_seconds(text: str) -> Seconds:
    """Return the seconds of `60,120,0.001`. Raises ConfigurationError."""
    try:
        policy, training, sample = map(float, text.split(","))
        if not min(policy, training) >= 0 < sample < float("inf"):
            raise ValueError
    except ValueError:
        raise ConfigurationError(
            f"--seconds {text}: these are no three times",
            "write those of an initial policy, a training and a sample, as 60,120,0.001",
        ) from None
    return Seconds(policy, training, sample)


def _mean(runs: Sequence[Run]) -> float:
    return sum(float(run.manifest["seconds"]) for run in runs) / len(runs)


def _sample(runs: Sequence[Run]) -> float | None:
    records = [one for run in runs for one in run.metrics.read() if one.get("sampled/completions")]
    sampled = sum(float(one["sampled/completions"]) for one in records)
    spent = sum(float(one.get(name, 0)) for one in records for name in _GRADED)
    return spent / sampled if sampled and spent else None
