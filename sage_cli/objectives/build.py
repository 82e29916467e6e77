"""From `rl.advantage` to an advantage, built in or registered by another package."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from sage_cli.config.advantages import advantage_options
from sage_cli.config.plugins import Plugin, in_words, load_plugin
from sage_cli.config.training import ADVANTAGES_GROUP
from sage_cli.objectives.advantage import Advantage, ShapedAdvantage
from sage_cli.objectives.built_in import BUILT_IN


def build_advantage(name: str, options: Mapping[str, Any]) -> Advantage:
    """The advantage called `name`.

    A registered one is a function of (inputs, **options), or a ShapedAdvantage whose `shape` is
    one of (update, **options). Raises ConfigurationError, with the plug-in's name, for one that
    is neither or doesn't take the options.
    """
    if name in BUILT_IN:
        every = advantage_options(name, options).model_dump()
        return _advantage(f"advantage '{name}'", BUILT_IN[name], lambda one: partial(one, **every))
    plugin = load_plugin(ADVANTAGES_GROUP, name)
    found = plugin.object
    takes = found.shape if isinstance(found, ShapedAdvantage) else found
    if not callable(takes) or isinstance(takes, type):
        raise plugin.refused(
            f"is {found!r}, which is no function of sage_cli.objectives.AdvantageInputs",
            "register a function that takes the inputs, and its options as keywords; or a "
            "sage_cli.objectives.ShapedAdvantage",
        )
    with plugin.blamed(
        f"can't be called with the options {in_words(options)}",
        f"see the arguments of {plugin.target}; --set rl.advantage_options.NAME=VALUE sets one",
    ):
        inspect.signature(takes).bind(None, **options)
    return _advantage(str(plugin), found, lambda one: _blamed(plugin, partial(one, **options)))


def _advantage(
    name: str,
    found: Callable[..., Tensor] | ShapedAdvantage,
    ready: Callable[[Callable[..., Tensor]], Callable[..., Tensor]],
) -> Advantage:
    """Options go to the shape where there is one; `ready` gives a function its options."""
    if isinstance(found, ShapedAdvantage):
        return Advantage(name, found.of, ready(found.shape), found.reads_old_entropy)
    return Advantage(name, ready(found))


def _blamed(plugin: Plugin, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The function, with the plug-in named in whatever it raises."""

    def called(inputs: Any) -> Tensor:
        with plugin.blamed():
            return function(inputs)

    return called
