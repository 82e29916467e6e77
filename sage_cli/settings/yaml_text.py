"""YAML read: quickly, and refused in one way."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import yaml

_LIBYAML = getattr(yaml, "CSafeLoader", None)
"""Ten times faster; not every build of PyYAML has it, and it says less of what it can't read."""


def yaml_value(text: str) -> Any:
    """Parse `text`. Raises yaml.YAMLError with the message of PyYAML's own reader."""
    if _LIBYAML is not None:
        with suppress(yaml.YAMLError):
            return yaml.load(text, Loader=_LIBYAML)
    return yaml.safe_load(text)
