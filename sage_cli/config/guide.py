"""`guide`: the shape q of the anchor, a union told apart by `guide.name`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, ValidationInfo, model_validator

from sage_cli.config.base import Section
from sage_cli.config.plugins import require_name

ScheduleClock = Literal["optimiser_step", "loss_call"]
"""What moves a schedule on: optimiser steps, or (the authors') every micro-batch's loss."""
GUIDES_GROUP = "sage_cli.guides"
BUILT_IN = ("none", "random", "token", "branch")


class _Guide(Section):
    q_min: float = Field(0.6, gt=0)
    """Lower bound of q: what a guide puts below it is raised to it (clamped)."""
    q_max: float = Field(1.4, gt=0)
    """Upper bound of q: what a guide puts above it is lowered to it (clamped)."""

    @model_validator(mode="after")
    def _clamp_is_an_interval(self) -> _Guide:
        if self.q_min > self.q_max:
            raise ValueError(f"q_min {self.q_min} is above q_max {self.q_max}")
        return self


class NoGuide(_Guide):
    """q = 1: the anchor is the reference itself."""

    name: Literal["none"] = "none"
    """`none`, `random`, `token`, `branch`, or what a package registers."""


class RandomGuideSection(_Guide):
    """Eq. 9: with probability epsilon, q = 1 + sigma z. Upper and lower ends of the schedules."""

    name: Literal["random"]
    """`none`, `random`, `token`, `branch`, or what a package registers."""
    epsilon: tuple[float, float] = (0.1, 0.0)
    """Probability that a token's q is drawn: upper and lower end of its schedule."""
    sigma: tuple[float, float] = (0.15, 0.05)
    """Deviation of q: upper and lower end of its schedule."""
    cycles: int = Field(8, ge=1)
    """Cosine cycles of the schedule over a training."""
    decay: float = Field(0.9, gt=0, le=1)
    """Factor on the upper end from one cycle to the next."""
    schedule_clock: ScheduleClock = "optimiser_step"
    """What moves the schedule on: optimiser steps, or (the authors') each micro-batch's loss."""
    seed: int = 3407
    """Of the draws of q."""

    @model_validator(mode="after")
    def _ranges(self) -> RandomGuideSection:
        if not all(0 <= value <= 1 for value in self.epsilon):
            raise ValueError("epsilon is a probability: both ends lie in [0, 1]")
        if any(value < 0 for value in self.sigma):
            raise ValueError("sigma is a standard deviation: both ends are at least 0")
        return self


class TokenGuideSection(_Guide):
    """Eq. 10: q ~ N(1 + alpha w, (sigma w)^2), w the row-normalised surprisal."""

    name: Literal["token"]
    """`none`, `random`, `token`, `branch`, or what a package registers."""
    alpha: tuple[float, float] = (0.3, 0.1)
    """Weight of surprisal in q's mean: upper and lower end of its schedule."""
    sigma: tuple[float, float] = (0.25, 0.1)
    """Weight of surprisal in q's deviation: upper and lower end of its schedule."""
    cycles: int = Field(8, ge=1)
    """Cosine cycles of the schedule over a training."""
    decay: float = Field(0.9, gt=0, le=1)
    """Factor on the upper end from one cycle to the next."""
    schedule_clock: ScheduleClock = "optimiser_step"
    """What moves the schedule on: optimiser steps, or (the authors') each micro-batch's loss."""
    norm: Literal["minmax", "rank", "zscore"] = "minmax"
    """How a completion's surprisals become w in [0, 1]."""
    signal: Literal["policy", "reference"] = "policy"
    """Whose surprisal."""
    seed: int = 3407
    """Of the draws of q."""

    @model_validator(mode="after")
    def _ranges(self) -> TokenGuideSection:
        if any(value < 0 for value in (*self.alpha, *self.sigma)):
            raise ValueError("alpha and sigma are at least 0 at both ends")
        return self


class BranchGuideSection(_Guide):
    """Eq. 11: q = 1 + rho max(0, H - tau), entropy H and threshold tau in nats."""

    name: Literal["branch"]
    """`none`, `random`, `token`, `branch`, or what a package registers."""
    tau: float = Field(1.2, ge=0)
    """Entropy in nats above which q rises."""
    rho: float = Field(0.3, ge=0)
    """How steeply q rises for each nat above tau."""
    signal: Literal["policy", "reference"] = "policy"
    """Whose entropy."""


class PluginGuideSection(_Guide):
    """A guide that another package registers under the entry-point group `sage_cli.guides`."""

    name: str
    """`none`, `random`, `token`, `branch`, or what a package registers."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What the guide is made with, besides `q_min` and `q_max`."""

    @model_validator(mode="before")
    @classmethod
    def _is_registered(cls, given: Any, info: ValidationInfo) -> Any:
        """Before its settings are looked at: those of a misspelt guide would all be unknown."""
        if isinstance(name := _name(given), str):
            require_name(GUIDES_GROUP, name, BUILT_IN, info)
        return given


def _name(value: Any) -> Any:
    return value.get("name", "none") if isinstance(value, dict) else getattr(value, "name", value)


def _kind(value: Any) -> str:
    name = _name(value)
    return name if name in BUILT_IN else "plugin"


GuideSection = Annotated[
    Annotated[NoGuide, Tag("none")]
    | Annotated[RandomGuideSection, Tag("random")]
    | Annotated[TokenGuideSection, Tag("token")]
    | Annotated[BranchGuideSection, Tag("branch")]
    | Annotated[PluginGuideSection, Tag("plugin")],
    Discriminator(_kind),
]
