"""The settings that make a base, a policy, a measurement: what work reads, and what names it."""

from __future__ import annotations

from dataclasses import dataclass

from sage_cli.config.data import DataSection
from sage_cli.config.evaluation import EvaluationSection
from sage_cli.config.grading import GradingSection
from sage_cli.config.model import PretrainedModel, PromptSection, ScratchModel, sampled_dtype
from sage_cli.config.rollout import RolloutSection
from sage_cli.config.sampling import SamplingSection
from sage_cli.config.schema import SageConfig
from sage_cli.config.training import AnchorSection, SftSection
from sage_cli.guides import Guide
from sage_cli.methods.method import Method


@dataclass(frozen=True)
class SftRecipe:
    """What a base is made from."""

    model: PretrainedModel | ScratchModel
    prompt: PromptSection
    data: DataSection
    sft: SftSection

    @classmethod
    def of(cls, config: SageConfig) -> SftRecipe:
        """The sections that supervised warm-up reads."""
        return cls(config.model, config.prompt, config.data, config.sft)


@dataclass(frozen=True)
class RlRecipe:
    """What a policy is made from, besides the model it begins with."""

    model: PretrainedModel | ScratchModel
    prompt: PromptSection
    data: DataSection
    rl: Method
    rollout: RolloutSection
    anchor: AnchorSection
    guide: Guide
    grading: GradingSection

    @classmethod
    def of(cls, config: SageConfig) -> RlRecipe:
        """The sections that training by RL reads."""
        return cls(
            config.model,
            config.prompt,
            config.data,
            config.rl,
            config.rollout,
            config.anchor,
            config.guide,
            config.grading,
        )


@dataclass(frozen=True)
class EvaluationRecipe:
    """What a measurement is made from, besides the policy; `dtype` is `sampled_dtype`."""

    dtype: str
    prompt: PromptSection
    data: DataSection
    sampling: SamplingSection
    grading: GradingSection
    evaluation: EvaluationSection

    @classmethod
    def of(cls, config: SageConfig) -> EvaluationRecipe:
        """The sections that measuring reads."""
        return cls(
            sampled_dtype(config.model),
            config.prompt,
            config.data,
            config.sampling,
            config.grading,
            config.evaluation,
        )
