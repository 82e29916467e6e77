"""The machine, the commit and the versions that a run is recorded with."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from typing_extensions import TypedDict

from sage_cli import __version__

RECORDED_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "math-verify", "vllm")


class Surroundings(TypedDict):
    """Versions, host and command of a computation; `commit` is None outside a checkout."""

    versions: dict[str, str]
    commit: str | None
    host: str
    command: str


@cache
def surroundings() -> Surroundings:
    """Return versions, commit, host and command line, by which a result is reproduced."""
    versions = {"sage": __version__, "python": platform.python_version()}
    installed = {package: _installed(package) for package in RECORDED_PACKAGES}
    versions |= {package: number for package, number in installed.items() if number is not None}
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


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
