"""Which setting a typed name means, and which settings a search makes sense for."""

from __future__ import annotations

from difflib import get_close_matches

from sage_cli.config.fields import Setting, settings
from sage_cli.errors import ConfigurationError
from sage_cli.guides import Guide

SHORT = {"guide": "guide.name", "lr": "rl.learning_rate", "seed": "rl.seed"}
"""Names that people type, and mean this setting by."""
NEAREST = (("guide",), ("rl", "rollout", "anchor"))
"""Sections in which a short name is looked for, in turn, before all others."""
_ELSEWHERE = "says where results go, not which"
_MEASURING = "is how cells are measured: cells that are measured differently can't be compared"
REFUSED = {
    "run": _ELSEWHERE,
    "tracking": _ELSEWHERE,
    "executor": "says where cells run, not what comes out",
    "sweep": "is the search itself",
    "evaluation": _MEASURING,
    "sampling": _MEASURING,
    "grading": _MEASURING,
    "rl.seed": "is no setting to choose: --seeds N trains every cell with N of them",
}
"""Why these sections and settings aren't searched."""


def key_of(name: str) -> str:
    """The setting that `name` means: a full key, or a last part that is unlike all others near it.

    Raises ConfigurationError for one that is unknown, ambiguous, or not to be searched.
    """
    key = name if "." in name else SHORT.get(name) or _by_last_part(name)
    found = _find(key)
    if found is None:
        raise _unknown(name)
    refused = reason_against(found)
    if refused:
        raise ConfigurationError(f"{key} isn't searched: it {refused}")
    return key


def is_whole(key: str) -> bool:
    """Whether the setting takes whole numbers only."""
    found = _find(key)
    return found is not None and found.integer


def reason_against(setting: Setting) -> str | None:
    """Why a search over the setting makes no sense."""
    for name in (setting.key, setting.key.partition(".")[0]):
        if name in REFUSED:
            return REFUSED[name]
    return "changes no result" if setting.cosmetic else None


def guides_with(key: str) -> tuple[str, ...]:
    """Return the names of the guides that have the setting `key`, as guide.tau."""
    fields = [guide.model_fields for guide in Guide.members()]
    return tuple(own["name"].default for own in fields if key.removeprefix("guide.") in own)


def _find(key: str) -> Setting | None:
    known = settings()
    if key in known:
        return known[key]
    return next((one for one in known.values() if one.open and key.startswith(f"{one.key}.")), None)


def _by_last_part(name: str) -> str:
    having = [key for key in settings() if key.rpartition(".")[2] == name]
    if not having:
        raise _unknown(name)
    searched = [key for key in having if not reason_against(settings()[key])] or having
    for sections in (*NEAREST, tuple(key.partition(".")[0] for key in searched)):
        near = [key for key in searched if key.partition(".")[0] in sections]
        if len(near) == 1:
            return near[0]
        if near:
            raise ConfigurationError(f"'{name}' may be {' or '.join(near)}: write the one meant")
    raise _unknown(name)


def _unknown(name: str) -> ConfigurationError:
    searched = [key for key, one in settings().items() if not reason_against(one)]
    names = searched if "." in name else [*SHORT, *(key.rpartition(".")[2] for key in searched)]
    close = get_close_matches(name, dict.fromkeys(names), n=1, cutoff=0.5)
    meant = f" (did you mean {close[0]}?)" if close else ""
    return ConfigurationError(f"there is no setting '{name}'{meant}")
