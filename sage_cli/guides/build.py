"""From the section `guide` to a guide, built in or registered by another package."""

from __future__ import annotations

from sage_cli.config.guide import (
    GUIDES_GROUP,
    BranchGuideSection,
    GuideSection,
    PluginGuideSection,
    RandomGuideSection,
    TokenGuideSection,
)
from sage_cli.config.plugins import load_plugin
from sage_cli.errors import ConfigurationError
from sage_cli.guides.branch import BranchGuide
from sage_cli.guides.guide import Guide, NoGuide
from sage_cli.guides.random import RandomGuide
from sage_cli.guides.schedule import PAPER_SCHEDULE, CosineCycles
from sage_cli.guides.signals import OPTIONAL_SIGNALS
from sage_cli.guides.token import TokenGuide


def build_guide(section: GuideSection, max_steps: int = PAPER_SCHEDULE.max_steps) -> Guide:
    """The guide of the section `guide`; `max_steps` is the schedules' length in optimiser steps.

    Raises ConfigurationError, with the plug-in's name, for one that can't be made of its options.
    """
    low, high = section.q_min, section.q_max
    match section:
        case RandomGuideSection():
            return RandomGuide(
                epsilon=section.epsilon,
                sigma=section.sigma,
                schedule=CosineCycles(max_steps, section.cycles, section.decay),
                seed=section.seed,
                clock=section.schedule_clock,
                q_min=low,
                q_max=high,
            )
        case TokenGuideSection():
            return TokenGuide(
                alpha=section.alpha,
                sigma=section.sigma,
                norm=section.norm,
                schedule=CosineCycles(max_steps, section.cycles, section.decay),
                seed=section.seed,
                signal=section.signal,
                clock=section.schedule_clock,
                q_min=low,
                q_max=high,
            )
        case BranchGuideSection():
            return BranchGuide(section.tau, section.rho, low, high, section.signal)
        case PluginGuideSection():
            return _plugin(section)
        case _:
            return NoGuide()


def _plugin(section: PluginGuideSection) -> Guide:
    registered, origin = load_plugin(GUIDES_GROUP, section.name)
    try:
        made = registered(q_min=section.q_min, q_max=section.q_max, **section.options)
    except (TypeError, ValueError) as error:
        given = ", ".join(f"{key}={value!r}" for key, value in section.options.items())
        raise ConfigurationError(
            f"guide '{section.name}' ({origin}) can't be made with the options "
            f"{given or '(none)'}: {error}",
            f"see the fields of {origin}; --set guide.options.NAME=VALUE sets one",
        ) from error
    if not isinstance(made, Guide):
        raise ConfigurationError(
            f"guide '{section.name}' is registered as {origin}, which makes a "
            f"{type(made).__name__} and not a sage_cli.guides.Guide",
            "register a subclass of sage_cli.guides.Guide",
        )
    unknown = sorted(made.needs - set(OPTIONAL_SIGNALS))
    if unknown:
        raise ConfigurationError(
            f"guide '{section.name}' ({origin}) needs {', '.join(unknown)}, which no training has",
            f"a guide can need {', '.join(OPTIONAL_SIGNALS)}",
        )
    return made
