"""From `rl.advantage` to an advantage, built in or registered by another package."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any

from sage_cli.config.plugins import load_plugin
from sage_cli.config.training import ADVANTAGES_GROUP
from sage_cli.errors import ConfigurationError
from sage_cli.objectives.advantage import Advantage
from sage_cli.objectives.advantages import BUILT_IN


def build_advantage(name: str, options: Mapping[str, Any]) -> Advantage:
    """The advantage called `name`; a registered one is a function of (inputs, **options).

    Raises ConfigurationError, with the plug-in's name, for one that is no such function or
    doesn't take the options.
    """
    if name in BUILT_IN:
        return Advantage(f"'{name}'", BUILT_IN[name])
    registered, origin = load_plugin(ADVANTAGES_GROUP, name)
    title = f"'{name}' ({origin})"
    if not callable(registered) or isinstance(registered, type):
        raise ConfigurationError(
            f"advantage {title} is {registered!r}, which is no function of "
            "sage_cli.objectives.AdvantageInputs",
            "register a function that takes the inputs, and its options as keywords",
        )
    try:
        inspect.signature(registered).bind(None, **options)
    except (TypeError, ValueError) as error:
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        raise ConfigurationError(
            f"advantage {title} can't be called with the options {given or '(none)'}: {error}",
            f"see the arguments of {origin}; --set rl.advantage_options.NAME=VALUE sets one",
        ) from error
    return Advantage(title, partial(registered, **options))
