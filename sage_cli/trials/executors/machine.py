"""The processor cores and GPUs of this machine, counted without torch."""

from __future__ import annotations

import os
import subprocess


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gpus() -> tuple[str, ...]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = [name.strip() for name in visible.split(",")]
        # CUDA takes the names before the first invalid one, as in "0,-1"
        valid = [bool(name) and name != "-1" for name in names]
        return tuple(names[: valid.index(False)] if False in valid else names)
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(listed.stdout.split())
