"""The setting that a typed name means, and the settings that can be searched."""

from __future__ import annotations

from sage_cli.config.explain import meant
from sage_cli.config.fields import UNIONS, Setting, members, setting, settings, settings_of
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError

SHORT = {"guide": "guide.name", "lr": "rl.learning_rate", "seed": "rl.seed"}
"""Settings by names that are no last part of them, or of more than one."""
NEAREST = (("guide",), ("rl", "rollout", "anchor"))
"""Sections in which a short name is looked for, in turn, before all others."""
ALL = tuple(SageConfig.model_fields)
_ELSEWHERE = "says where results go, not what they are"
_MEASURING = "says how trials are measured, and only trials measured alike are compared"
REFUSED = {
    "run": _ELSEWHERE,
    "tracking": _ELSEWHERE,
    "executor": "says where trials run, not what results they have",
    "sweep": "configures the search itself",
    "evaluation": _MEASURING,
    "sampling": _MEASURING,
    "grading": _MEASURING,
    "rl.seed": "tells replicates apart: --seeds N trains every trial with N seeds",
}
"""The reasons why these sections and settings can't be searched."""


def key_of(name: str) -> str:
    """Return the setting that `name` means: a full key, or a last part that one near section has.

    Raises ConfigurationError for one that is unknown, ambiguous, or not to be searched.
    """
    key = name if "." in name else SHORT.get(name) or _by_last_part(name)
    found = setting(key)
    if found is None:
        searched = [known for known, one in settings().items() if not _reason_against(one)]
        last_parts = [known.rpartition(".")[2] for known in searched]
        close = meant(name, searched if "." in name else [*SHORT, *last_parts])
        raise ConfigurationError(f"there is no setting '{name}'{close}")
    if reason := _reason_against(found):
        raise ConfigurationError(f"{key} can't be searched: it {reason}")
    return key


def is_whole(key: str) -> bool:
    """Return True if the setting takes whole numbers only."""
    found = setting(key)
    return found is not None and found.integer


def choice_for(key: str) -> str | None:
    """Return the setting that chooses the class of `key`'s section, as guide.name or rl.algo."""
    section = key.partition(".")[0]
    choice = f"{section}.{UNIONS[section]}" if section in UNIONS else None
    return None if choice == key else choice


def members_with(key: str) -> tuple[str, ...]:
    """Return the names of the guides, or methods, that have the setting `key`; empty for all."""
    section, _, name = key.partition(".")
    every = members(section)
    having = tuple(one for one, kind in every.items() if name in kind.model_fields)
    return having if len(having) < len(every) else ()


def _reason_against(one: Setting) -> str | None:
    """Return why a search over the setting makes no sense."""
    for name in (one.key, one.key.partition(".")[0]):
        if name in REFUSED:
            return REFUSED[name]
    return "changes no result" if one.cosmetic else None


def _by_last_part(name: str) -> str:
    for may_be_searched in (True, False):
        for sections in (*NEAREST, ALL):
            near = [
                key
                for key, one in settings_of(sections).items()
                if key.rpartition(".")[2] == name and (not _reason_against(one)) == may_be_searched
            ]
            if len(near) > 1:
                raise ConfigurationError(f"'{name}' is ambiguous: write {' or '.join(near)}")
            if near:
                return near[0]
    return name
