"""Projections of the configuration: the sections that one job reads, and no others."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

from sage_cli.config.consent import typed_again
from sage_cli.config.schema import SageConfig
from sage_cli.guides import Guide
from sage_cli.methods.method import Method
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.evaluation import EvaluationSection, GradingSection
from sage_cli.settings.sections.model import (
    PretrainedModel,
    PromptSection,
    ScratchModel,
    sampled_dtype,
)
from sage_cli.settings.sections.records import TrackingSection
from sage_cli.settings.sections.sampling import RolloutSection, SamplingSection
from sage_cli.settings.sections.training import AnchorSection, SftSection


@dataclass(frozen=True)
class Sections:
    """Some sections of the configuration, each a field under its name."""

    @classmethod
    def of(cls, config: SageConfig) -> Self:
        """The sections of `config` that the fields name."""
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls)})


@dataclass(frozen=True)
class SftSpec(Sections):
    """The sections that supervised fine-tuning reads."""

    model: PretrainedModel | ScratchModel
    prompt: PromptSection
    data: DataSection
    sft: SftSection


@dataclass(frozen=True)
class RlSpec(Sections):
    """The sections that RL reads; the policy that it starts from comes beside them."""

    model: PretrainedModel | ScratchModel
    prompt: PromptSection
    data: DataSection
    rl: Method
    rollout: RolloutSection
    anchor: AnchorSection
    guide: Guide
    grading: GradingSection


@dataclass(frozen=True)
class EvaluationSpec(Sections):
    """The sections that an evaluation reads; the policies come beside them."""

    model: PretrainedModel | ScratchModel
    prompt: PromptSection
    data: DataSection
    sampling: SamplingSection
    grading: GradingSection
    evaluation: EvaluationSection

    @property
    def dtype(self) -> str:
        """The type of the weights that are sampled from; `auto` is the stored one."""
        return sampled_dtype(self.model)


@dataclass(frozen=True)
class RecordSpec:
    """The place of results and their mirrors; nothing here changes a result.

    `settings` is the whole configuration as a run's config.json stores it. `typed` are the options
    by which a command that reads it from there is allowed what was allowed here.
    """

    root: Path
    tracking: TrackingSection
    sweep: str | None
    settings: dict[str, Any]
    typed: tuple[str, ...]

    @classmethod
    def of(cls, config: SageConfig) -> RecordSpec:
        """The record of a command under `config`."""
        return cls(
            config.run.root,
            config.tracking,
            config.run.sweep,
            config.model_dump(mode="json"),
            typed_again(config),
        )
