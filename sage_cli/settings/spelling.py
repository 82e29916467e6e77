"""Values of settings that have been renamed, with the spelling that run hashes keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FORMER: dict[str, dict[str, str]] = {
    "anchor.reference": {"base": "pre-sft"},
    "rollout.backend": {"sampler": "builtin"},
    "sampling.backend": {"transformers": "builtin"},
}
"""Setting -> former value -> today's. A former value is read for ever, and it is what is hashed:
otherwise each stored run would get another id."""


def formerly(setting: str) -> dict[str, Any]:
    """Return the mark of a field whose values were renamed, for `json_schema_extra`."""
    return {"formerly": FORMER[setting]}


def respelled(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored configuration with today's values, so that runs of all ages are comparable.

    Sections that are missing or of another form are left as they are.
    """
    current = dict(config)
    for setting, renamed in FORMER.items():
        section, _, name = setting.partition(".")
        stored = current.get(section)
        if isinstance(stored, dict) and stored.get(name) in renamed:
            current[section] = {**stored, name: renamed[stored[name]]}
    return current
