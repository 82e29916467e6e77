"""`tracking` and `run`: mirrors of a run's files, and where results go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from sage_cli.settings.section import COSMETIC, Section

ROOT_VARIABLE = "SAGE_RUNS"


def default_root() -> Path:
    """Return the folder of runs where no flag or setting names one: `$SAGE_RUNS`, or `runs`."""
    return Path(os.environ.get(ROOT_VARIABLE) or "runs")


class TrackingSection(Section):
    """Mirrors of a run's own files, which stay authoritative; nothing here changes a result."""

    wandb: Annotated[
        Literal["offline", "online", "off"],
        BeforeValidator(lambda value: "off" if value is False else value),  # YAML's own `off`
    ] = Field("offline", json_schema_extra=COSMETIC)
    """Mirror runs to W&B: `offline` into files, `online` to its servers, `off`."""
    project: str = Field("sage", json_schema_extra=COSMETIC)
    """Project in W&B."""
    group: str | None = Field(None, json_schema_extra=COSMETIC)
    """Group in W&B."""
    tensorboard: bool = Field(False, json_schema_extra=COSMETIC)
    """Mirror runs as TensorBoard's event files."""
    rollouts: Annotated[int, Field(ge=0)] | Literal["all"] = Field(4, json_schema_extra=COSMETIC)
    """At most how many completions rollouts.jsonl keeps of a step of RL, each of another prompt.
    `all` also keeps every completion in completions/: token ids, grade, rewards."""
    rollouts_every: int = Field(10, ge=1, json_schema_extra=COSMETIC)
    """Steps from one that keeps some to the next; the first step always does."""


class RunSection(Section):
    """The place of results; no setting here changes a result."""

    root: Path = Field(default_factory=default_root, json_schema_extra=COSMETIC)
    """Folder of runs: `--runs`, this setting, `$SAGE_RUNS`, or `runs`, the first that is there."""
    sweep: str | None = Field(None, json_schema_extra=COSMETIC)
    """The sweep that the run belongs to; such a run is never taken as the latest."""
