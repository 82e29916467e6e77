"""Environment of the libraries underneath, set before any of them is loaded."""

from __future__ import annotations

import os

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
}


def prepare() -> None:
    """Calm threads, no telemetry, no progress bars but ours; what the user has set stays."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
