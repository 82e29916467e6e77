"""`tracking`: where records are sent, too."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from sage_cli.settings.section import COSMETIC, Section


class TrackingSection(Section):
    """Trackers to which a run's records are copied. The run's own files stay authoritative, and
    none of these settings changes a result."""

    wandb: Annotated[
        Literal["offline", "online", "off"],
        BeforeValidator(lambda value: "off" if value is False else value),  # YAML's own `off`
    ] = Field("offline", json_schema_extra=COSMETIC)
    """Use of W&B: `offline` writes its files only, `online` sends them to its servers, and `off`
    does neither."""
    project: str = Field("sage", json_schema_extra=COSMETIC)
    """Project in W&B and trackio that runs are sent to."""
    group: str | None = Field(None, json_schema_extra=COSMETIC)
    """Group in W&B and trackio that runs are added to."""
    tensorboard: bool = Field(False, json_schema_extra=COSMETIC)
    """Whether TensorBoard event files are written, too."""
    trackio: bool = Field(False, json_schema_extra=COSMETIC)
    """Whether records are logged to trackio, too: to its database on this machine, or to where its
    own environment variables say."""
    rollouts: Annotated[int, Field(ge=0)] | Literal["all"] = Field(4, json_schema_extra=COSMETIC)
    """Number of completions per RL step that rollouts.jsonl keeps, each of another prompt. `all`
    also stores every completion in completions/, with token ids, grade and rewards."""
    rollouts_every: int = Field(10, ge=1, json_schema_extra=COSMETIC)
    """Number of steps between those whose completions rollouts.jsonl keeps. The first step is
    always kept."""
