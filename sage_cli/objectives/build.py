"""From `rl.advantage` to an advantage, built in or registered by another package."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from sage_cli.config.plugins import in_words, load_plugin
from sage_cli.config.training import ADVANTAGES_GROUP
from sage_cli.objectives.advantage import Advantage, AdvantageInputs
from sage_cli.objectives.advantages import BUILT_IN


def build_advantage(name: str, options: Mapping[str, Any]) -> Advantage:
    """The advantage called `name`; a registered one is a function of (inputs, **options).

    Raises ConfigurationError, with the plug-in's name, for one that is no such function or
    doesn't take the options.
    """
    if name in BUILT_IN:
        return Advantage(f"advantage '{name}'", BUILT_IN[name])
    plugin = load_plugin(ADVANTAGES_GROUP, name)
    if not callable(plugin.object) or isinstance(plugin.object, type):
        raise plugin.refused(
            f"is {plugin.object!r}, which is no function of sage_cli.objectives.AdvantageInputs",
            "register a function that takes the inputs, and its options as keywords",
        )
    with plugin.blamed(
        f"can't be called with the options {in_words(options)}",
        f"see the arguments of {plugin.target}; --set rl.advantage_options.NAME=VALUE sets one",
    ):
        inspect.signature(plugin.object).bind(None, **options)

    def called(inputs: AdvantageInputs) -> Any:
        with plugin.blamed():
            return plugin.object(inputs, **options)

    return Advantage(str(plugin), called)
