"""`sampling`, `grading`, `evaluation`, `sweep`, `tracking`, `run`: measuring and record keeping."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from sage_cli.config.base import Section
from sage_cli.config.data import FieldsSection


class SamplingSection(Section):
    """How evaluation samples: as in training but for the temperature (Appendix F)."""

    backend: Literal["auto", "transformers", "vllm", "server"] = "auto"
    temperature: float = Field(0.3, ge=0)
    """0 is greedy decoding."""
    top_p: float = Field(1.0, gt=0, le=1)
    top_k: int = Field(0, ge=0)
    min_p: float = Field(0.01, ge=0, lt=1)
    max_tokens: int = Field(2048, ge=1)
    batch_rows: int = Field(256, ge=1)
    """Completions that are decoded together (`transformers`) or in flight at once (`server`)."""
    servers: tuple[str, ...] = ()
    server_model: str | None = None
    timeout_s: float = Field(600, gt=0)


class GradingSection(Section):
    """`strict` is sage's judge; `math-verify` the field's plain recipe, for comparison."""

    mode: Literal["strict", "math-verify"] = "strict"
    workers: int = Field(1, ge=1)
    timeout_s: int = Field(5, ge=1)
    memory_mb: int = Field(1024, ge=128)
    tolerance: float | None = Field(None, gt=0, lt=1)
    """Relative tolerance of numeric answers; null takes the benchmark's own (Minerva has one)."""


class EvaluationSection(Section):
    """Which problems, how many samples, which k."""

    benchmark: str = "aime,amc23,math500-l5"
    fields: FieldsSection = FieldsSection()
    """Columns of a benchmark that is a file."""
    samples: int = Field(256, ge=1)
    k: str = "1,256"
    seeds: int = Field(1, ge=1)
    """How many evaluation seeds: seed, seed + 1, ..."""
    seed: int = 0
    limit: int | None = Field(None, ge=1)
    """Only the first problems of each benchmark."""
    confidence: float = Field(0.95, gt=0, lt=1)
    bootstrap: int = Field(2000, ge=100)
    allow_template_mismatch: bool = False


class SweepSection(Section):
    """A search over the guide's settings; every trial is a run of its own."""

    space: str = "tau,rho"
    benchmark: str = "amc23"
    """Development problems to choose settings on; never the ones that are reported."""
    steps: int | None = Field(None, ge=1)
    """RL steps of a trial; null takes `rl.steps`."""
    samples: int = Field(256, ge=1)
    k: tuple[int, int] = (1, 64)
    """The two objectives: pass@k[0] and pass@k[1] on the development problems."""
    retries: int = Field(1, ge=0)


class TrackingSection(Section):
    """Mirrors of a run's own files, which stay authoritative; nothing here changes a result."""

    wandb: Annotated[
        Literal["offline", "online", "off"],
        BeforeValidator(lambda value: "off" if value is False else value),  # YAML's own `off`
    ] = "offline"
    project: str = "sage"
    group: str | None = None
    tensorboard: bool = False
    rollouts: int = Field(4, ge=0)
    """At most how many completions rollouts.jsonl keeps of a step of RL, each of another prompt."""
    rollouts_every: int = Field(10, ge=1)
    """Steps from one that keeps some to the next; the first step always does."""


class RunSection(Section):
    """Where results go and what they are called; nothing here changes a result."""

    root: Path = Path("runs")
    name: str | None = None
    tags: tuple[str, ...] = ()
