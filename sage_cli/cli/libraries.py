"""The settings of libraries that commands run with: threads, telemetry, progress bars, warnings."""

from __future__ import annotations

import logging
import os
import warnings
from pathlib import Path

from sage_cli.cli.console import SafeFormatter, visible

_SETTINGS = {
    # Idle OpenMP threads that spin make two processes on two cores five times slower.
    "OMP_WAIT_POLICY": "PASSIVE",
    "KMP_BLOCKTIME": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "WANDB_SILENT": "true",
    "MPLBACKEND": "Agg",
    # Plug-ins of pydantic have no say here; to look for them reads every package's metadata.
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}
_SPIN = {"GOMP_SPINCOUNT": "30000"}
"""Where nothing else runs, threads that wait some tenths of a millisecond before they sleep halve
a small model's step: waking a sleeper takes longer than its share of the work."""
_LOAD = Path("/proc/loadavg")


def prepare(load: Path = _LOAD) -> None:
    """Set threads, telemetry and progress bars of libraries; variables that are set stay.

    A warning is a line of its words, without the line of code that gave it.
    """
    warnings.formatwarning = lambda message, *_, **__: f"warning: {visible(str(message))}\n"
    if logging.lastResort is not None:  # what prints where nobody has said how
        logging.lastResort.setFormatter(SafeFormatter())
    for name, value in {**_SETTINGS, **(_SPIN if _alone(load) else {})}.items():
        os.environ.setdefault(name, value)


def _alone(load: Path) -> bool:
    """Return True if no other thread of the machine runs; reads `0.52 0.4 0.3 1/123 4567`."""
    try:
        return load.read_text().split()[3].startswith("1/")
    except (OSError, IndexError):  # not Linux
        return False


def ask_nobody() -> None:
    """Restrict the Hub's clients to their cache, so a dry run waits for no network."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
