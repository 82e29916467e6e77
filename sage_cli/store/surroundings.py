"""Where and with what a result was computed."""

from __future__ import annotations

import platform
import socket
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from sage_cli import __version__
from sage_cli.store.manifest import Surroundings

RECORDED_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "math-verify", "vllm")


@cache
def surroundings() -> Surroundings:
    """Versions, commit, host and command line: what a reader needs to run it again."""
    versions = {"sage": __version__, "python": platform.python_version()}
    for package in RECORDED_PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "versions": versions,
        "commit": _commit(),
        "host": socket.gethostname(),
        "command": " ".join(["sage", *sys.argv[1:]]),
    }


def _commit() -> str | None:
    """The checkout's commit, with `+` where it has uncommitted changes."""
    here = Path(__file__).resolve().parent
    try:
        described = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12"],
            capture_output=True, text=True, timeout=5, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return described.stdout.strip()
