"""What installed packages register under an entry-point group."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import Any

from sage_cli.errors import ConfigurationError


@dataclass(frozen=True)
class Plugin:
    """An object that a package registers: its name, and where it stands (`package:object`)."""

    group: str
    name: str
    target: str
    object: Any

    def refused(self, wrong: str, next_step: str) -> ConfigurationError:
        """What to raise when the object isn't what its group asks for."""
        return ConfigurationError(
            f"'{self.name}' ({self.target}, registered under {self.group}) {wrong}", next_step
        )


def plugins(group: str) -> list[Plugin]:
    """Every plug-in of `group`, by name. Raises ConfigurationError for one that can't be imported."""  # noqa: E501
    points = sorted(metadata.entry_points(group=group), key=lambda point: point.name)
    return [_loaded(point) for point in points]


def _loaded(point: metadata.EntryPoint) -> Plugin:
    try:
        return Plugin(point.group, point.name, point.value, point.load())
    except Exception as error:  # whatever another package's import raises
        raise Plugin(point.group, point.name, point.value, None).refused(
            f"can't be imported: {type(error).__name__}: {error}",
            "mend the package, or uninstall it",
        ) from error
