"""The surroundings of a computation: versions, commit, host, command; tested versions."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from sage_cli import __version__
from sage_cli.errors import ConfigurationError
from sage_cli.store.runs.manifest import Surroundings

DISTRIBUTION = "sage-rlvr"
RECORDED_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "math-verify", "vllm")


@cache
def surroundings() -> Surroundings:
    """Return versions, commit, host and command line, by which a result is reproduced."""
    versions = {"sage": __version__, "python": platform.python_version()}
    installed = {package: _installed(package) for package in RECORDED_PACKAGES}
    versions |= {package: found for package, found in installed.items() if found is not None}
    return {
        "versions": versions,
        "commit": _commit(),
        "host": socket.gethostname(),
        "command": " ".join(["sage", *sys.argv[1:]]),
    }


def _commit() -> str | None:
    """Return the checkout's commit, with `+` if it has uncommitted changes; None without one."""
    here = Path(__file__).resolve().parent
    try:
        described = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()


def require_tested_versions(distribution: str = DISTRIBUTION) -> str:
    """Return the installed versions of the pinned requirements of `distribution`.

    Requirements of extras count if they are installed. Raises ConfigurationError with the packages
    of other versions and those that are missing.
    """
    try:
        requirements = [Requirement(text) for text in requires(distribution) or ()]
    except PackageNotFoundError:
        raise ConfigurationError(
            f"{distribution} is not installed as a package, so its tested versions are unknown",
            "pip install -e . -c constraints.txt in its checkout",
        ) from None
    wrong, met = [], {}
    for required in requirements:
        name, specifier, installed = required.name, required.specifier, _installed(required.name)
        if installed is None and "extra" in str(required.marker):
            continue
        if installed is None or not specifier.contains(installed, prereleases=True):
            wrong.append(f"{name} {installed or 'is missing'} (tested: {specifier})")
        elif str(specifier).startswith(("==", "~=")):
            met[name] = installed
    if wrong:
        raise ConfigurationError(
            ", ".join(wrong),
            f"pip install {distribution} -c constraints.txt installs the tested versions",
        )
    return ", ".join(f"{name} {installed}" for name, installed in met.items())


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
