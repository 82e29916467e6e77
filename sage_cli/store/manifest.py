"""The types of `runs/<id>/manifest.json`, and the surroundings that it records."""

from __future__ import annotations

import platform
import secrets
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NotRequired

from typing_extensions import TypedDict

from sage_cli import __version__
from sage_cli.errors import StoreError
from sage_cli.store.locks import PATIENCE_S, locked

FINISHED, RUNNING, INTERRUPTED, FAILED = "finished", "running", "interrupted", "failed"
IMPORTED = "imported"
"""The kind of a run that holds samples of another program, and no weights."""
PRUNED = "pruned"
"""An interruption by a sweep, with its reason; the same command resumes the run."""


class Surroundings(TypedDict):
    """Versions, host and command of a computation; `commit` is None outside a checkout."""

    versions: dict[str, str]
    commit: str | None
    host: str
    command: str


class Origin(TypedDict):
    """The origin of a training.

    `parent` is a run's id or a model's name, `parent_weights` its fingerprint, `template` the
    prompt template's hash, `data` the files' versions or a name, `sweep` the sweep's name.
    """

    kind: str
    parent: str | None
    seed: int
    template: str
    parent_weights: NotRequired[str]
    data: NotRequired[str | list[str]]
    sweep: NotRequired[str | None]


RECORDED_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "math-verify", "vllm")


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


LEAST_FREE = 1 << 30
"""Bytes below which a training's checkpoints may not fit."""
_PROBE = ".sage-probe"


def require_storage(root: Path, least_free: int = LEAST_FREE) -> str:
    """Return a description of the folder of runs after a lock was taken in it.

    If the folder does not exist yet, its nearest existing parent is checked. Raises StoreError if
    nothing can be written or locked there, or less than `least_free` bytes are free.
    """
    root = root.absolute()
    folder = next(path for path in (root, *root.parents) if path.exists())
    if not folder.is_dir():
        raise StoreError(f"{folder} is a file", "name another folder with --runs or $SAGE_RUNS")
    probe = folder / f"{_PROBE}-{secrets.token_hex(4)}"
    try:
        with locked(probe, PATIENCE_S):
            pass
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)
    free = shutil.disk_usage(folder).free
    if free < least_free:
        raise StoreError(
            f"{root} has {free / (1 << 30):.1f} GiB free, and checkpoints may not fit",
            "make room there, or name another folder with --runs or $SAGE_RUNS",
        )
    return f"{root}: {free / (1 << 30):.0f} GiB free, locks work"
