"""Find what ships with sage by its name, or a file by its path."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from sage_cli.errors import ConfigurationError, did_you_mean


def shipped(folder: str) -> Path:
    """Return a folder such as `configs`: beside the package, or below the prefix once installed."""
    checkout = Path(__file__).resolve().parents[2] / folder
    installed = Path(sysconfig.get_path("data")) / "share" / "sage" / folder
    return checkout if checkout.is_dir() else installed


def is_path(name: str) -> bool:
    """Return True if a preset, or an accelerate configuration, is a file and not a shipped name."""
    return Path(name).suffix in (".yaml", ".yml", ".json")


def shipped_or_path(folder: str, name: str, kind: str) -> Path:
    """Return a file by its path, or the one of that name among those that ship in `folder`."""
    if is_path(name):
        return Path(name)
    files = {file.stem: file for file in sorted(shipped(folder).glob("*.yaml"))}
    if name in files:
        return files[name]
    raise ConfigurationError(
        f"there is no {kind} '{name}'; there are {', '.join(files)}",
        did_you_mean(name, files) or "or give the path of a YAML file",
    )
