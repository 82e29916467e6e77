"""A layer of settings, with what to call where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sage_cli.json_value import value_at


@dataclass(frozen=True)
class Layer:
    """Settings and what to call their origin, such as `preset tiny` or `--set`.

    `typed` settings are meant for whatever is chosen. Blocks of a `checked` layer, as of a shipped
    preset, were validated before.
    """

    origin: str
    values: Mapping[str, Any]
    typed: bool = False
    checked: bool = False

    def names(self, setting: str) -> bool:
        """Return True if the user says `setting` here: by a flag, `--set` or an own preset."""
        own = not self.checked and self.origin != "changed"
        return own and self.says(setting)

    def says(self, setting: str) -> bool:
        """Return True if the layer has a value of `setting` other than null."""
        return value_at(self.values, setting) is not None
