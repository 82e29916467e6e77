"""What this machine can do: precision and the 8-bit optimiser."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from sage_cli.config.training import Optimizer


def precision() -> dict[str, Any]:
    """Trainer arguments: bf16 on GPUs that have it, plain float32 on the CPU."""
    on_gpu = torch.cuda.is_available()
    return {"use_cpu": not on_gpu, "bf16": on_gpu and torch.cuda.is_bf16_supported()}


def without_cpu_number(arguments: Any) -> Any:
    """Trainer arguments whose device is plain `cpu` where it is a CPU.

    accelerate numbers the CPUs of several processes, and torch.load knows no `cpu:1`: a training
    that is gone on with couldn't read its optimiser.
    """
    if arguments.device.type == "cpu":
        arguments.__dict__["_setup_devices"] = torch.device("cpu")  # a cached property
    return arguments


def optimizer_name(requested: Optimizer) -> str:
    """The trainer's name for the optimiser; 8-bit AdamW falls back with a warning that says so."""
    if requested == "adamw_8bit":
        if torch.cuda.is_available() and _bitsandbytes_works():
            return "adamw_8bit"
        warnings.warn(
            "adamw_8bit needs a GPU and bitsandbytes: AdamW in full precision is used instead",
            stacklevel=2,
        )
    return "adamw_torch_fused"


def _bitsandbytes_works() -> bool:
    try:
        import bitsandbytes  # noqa: F401
    except (ImportError, RuntimeError, OSError):
        return False
    return True
