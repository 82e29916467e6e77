"""From the configuration to a guide, built in or registered by another package."""

from __future__ import annotations

from importlib.metadata import entry_points

from sage_cli.config.guide import (
    ENTRY_POINT_GROUP,
    BranchGuideSection,
    GuideSection,
    PluginGuideSection,
    RandomGuideSection,
    TokenGuideSection,
)
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.guides.branch import BranchGuide
from sage_cli.guides.guide import Guide, NoGuide
from sage_cli.guides.random import RandomGuide
from sage_cli.guides.schedule import CosineCycles
from sage_cli.guides.token import TokenGuide


def build_guide(config: SageConfig | GuideSection, *, max_steps: int | None = None) -> Guide:
    """The guide of a configuration or of its `guide` section.

    `max_steps` is the length of the schedules in optimiser steps: by default `rl.steps`, or the
    paper's 1,000 where only the section is given.
    """
    if isinstance(config, SageConfig):
        return build_guide(config.guide, max_steps=max_steps or config.rl.steps)
    low, high = config.q_min, config.q_max
    match config:
        case RandomGuideSection():
            return RandomGuide(
                epsilon=config.epsilon,
                sigma=config.sigma,
                schedule=CosineCycles(max_steps or 1000, config.cycles, config.decay),
                seed=config.seed,
                clock=config.schedule_clock,
                q_min=low,
                q_max=high,
            )
        case TokenGuideSection():
            return TokenGuide(
                alpha=config.alpha,
                sigma=config.sigma,
                norm=config.norm,
                schedule=CosineCycles(max_steps or 1000, config.cycles, config.decay),
                seed=config.seed,
                signal=config.signal,
                clock=config.schedule_clock,
                q_min=low,
                q_max=high,
            )
        case BranchGuideSection():
            return BranchGuide(config.tau, config.rho, low, high, config.signal)
        case PluginGuideSection():
            return _plugin(config)
        case _:
            return NoGuide()


def _plugin(section: PluginGuideSection) -> Guide:
    (point,) = entry_points(group=ENTRY_POINT_GROUP, name=section.name)
    made = point.load()(q_min=section.q_min, q_max=section.q_max, **section.options)
    if not isinstance(made, Guide):
        raise ConfigurationError(
            f"guide '{section.name}' is registered as {point.value}, which makes a "
            f"{type(made).__name__} and not a sage_cli.guides.Guide",
            "register a subclass of sage_cli.guides.Guide",
        )
    return made
