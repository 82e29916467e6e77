"""What other packages register: names by entry-point group, and the things behind them."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationInfo

from sage_cli.errors import ConfigurationError

AS_STORED = {"plugins": "as stored"}
"""`SageConfig.model_validate(stored, context=AS_STORED)` reads a finished run's configuration
where the packages that its plug-ins come from aren't installed: nothing is to be trained."""


def plugin_names(group: str) -> tuple[str, ...]:
    """Names that installed packages register under `group`, in alphabetical order."""
    return tuple(sorted({point.name for point in entry_points(group=group)}))


def is_to_be_checked(info: ValidationInfo) -> bool:
    """Whether a name has to be known: not where a stored configuration is only looked at."""
    return bool(info.context != AS_STORED)


def load_plugin(group: str, name: str) -> tuple[Any, str]:
    """What is registered under `name`, and where it comes from (`package.module:object`).

    Raises ConfigurationError where nothing is, or where it can't be imported.
    """
    kind = group.rpartition(".")[2].removesuffix("s")
    point = next(iter(entry_points(group=group, name=name)), None)
    if point is None:
        raise ConfigurationError(
            f"no installed package registers the {kind} '{name}' (entry-point group '{group}')",
            "install the package that it comes from",
        )
    try:
        return point.load(), point.value
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"{kind} '{name}' is registered as {point.value}, which can't be imported: {error}",
            f"mend or reinstall the package that registers '{name}'",
        ) from error
