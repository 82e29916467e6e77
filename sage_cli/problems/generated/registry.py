"""The generators there are: built in, and registered by other packages."""

from __future__ import annotations

import inspect

from sage_cli.config.base import Section
from sage_cli.config.data import GENERATORS_GROUP
from sage_cli.config.plugins import Plugin, plugins
from sage_cli.problems.generated.arithmetic.generator import Arithmetic
from sage_cli.problems.generated.generator import SPLITS, Generator
from sage_cli.problems.generated.knights_knaves.generator import KnightsKnaves
from sage_cli.problems.generated.word_problems.generator import WordProblems

BUILT_IN: tuple[type[Generator], ...] = (Arithmetic, KnightsKnaves, WordProblems)
"""A new one is a folder beside this file, a section of `data` and a name here."""


def plugin_generators() -> list[Plugin]:
    """The generators of installed packages. Raises ConfigurationError for one that is none."""
    registered = plugins(GENERATORS_GROUP)
    for plugin in registered:
        wrong = _wrong(plugin.name, plugin.object)
        if wrong:
            raise plugin.refused(
                wrong, "register a subclass of sage_cli.problems.generated.generator.Generator"
            )
    return registered


def _wrong(name: str, registered: object) -> str | None:
    """The reason why an object can't serve as the generator `name`; None if it can."""
    if not (isinstance(registered, type) and issubclass(registered, Generator)):
        return f"is a {type(registered).__name__} and not a class of generators"
    if inspect.isabstract(registered):
        return f"lacks {', '.join(sorted(registered.__abstractmethods__))}"
    called = getattr(registered, "name", None)
    if called != name:
        return f"calls itself {called!r}"
    if not isinstance(getattr(registered, "title", None), str):
        return "has no title"
    if not registered.splits or set(registered.splits) - set(SPLITS):
        return f"has the splits {registered.splits!r}: they can be {', '.join(SPLITS)}"
    if not (isinstance(registered.settings, type) and issubclass(registered.settings, Section)):
        return "has settings that are no sage_cli.config.base.Section"
    return None
