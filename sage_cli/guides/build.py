"""From the section `guide` to a guide, built in or registered by another package."""

from __future__ import annotations

from collections.abc import Set

from sage_cli.config.guide import (
    GUIDES_GROUP,
    BranchGuideSection,
    GuideSection,
    PluginGuideSection,
    RandomGuideSection,
    TokenGuideSection,
)
from sage_cli.config.plugins import in_words, load_plugin
from sage_cli.guides.branch import BranchGuide
from sage_cli.guides.guide import CLOCKS, SIGNALS, Guide, NoGuide
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
    plugin = load_plugin(GUIDES_GROUP, section.name)
    with plugin.blamed(
        f"can't be made with the options {in_words(section.options)}",
        f"see the fields of {plugin.target}; --set guide.options.NAME=VALUE sets one",
    ):
        made = plugin.object(q_min=section.q_min, q_max=section.q_max, **section.options)
    if not isinstance(made, Guide):
        raise plugin.refused(
            f"makes a {type(made).__name__} and not a sage_cli.guides.Guide",
            "register a subclass of sage_cli.guides.Guide",
        )
    if type(made).log_q is not Guide.log_q:
        raise plugin.refused(
            "has a log_q of its own, so that nothing would check what it gives",
            "implement q alone: clamp, mask and detachment are done by sage_cli.guides.Guide",
        )
    for field, known in (("signal", SIGNALS), ("clock", CLOCKS)):
        if getattr(made, field) not in known:
            raise plugin.refused(
                f"has the {field} {getattr(made, field)!r}", f"it can be {' or '.join(known)}"
            )
    if not isinstance(made.needs, Set):
        raise plugin.refused(f"needs {made.needs!r}, which is no set", "make it a frozenset")
    unknown = sorted(map(str, made.needs - set(OPTIONAL_SIGNALS)))
    if unknown:
        raise plugin.refused(
            f"needs {', '.join(unknown)}, which no training has",
            f"a guide can need {', '.join(OPTIONAL_SIGNALS)}",
        )
    return made
