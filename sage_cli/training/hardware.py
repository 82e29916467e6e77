"""What this machine computes in, and on."""

from __future__ import annotations

import gc
from typing import Any

import torch

from sage_cli.config.model import ComputeDtype
from sage_cli.errors import ConfigurationError


def precision(compute_dtype: ComputeDtype) -> dict[str, Any]:
    """Trainer arguments for `model.compute_dtype`: in bfloat16 products are autocast, weights stay.

    Raises ConfigurationError for bfloat16 on a GPU that doesn't have it.
    """
    on_gpu = torch.cuda.is_available()
    has_bf16 = on_gpu and torch.cuda.is_bf16_supported()
    if compute_dtype == "bfloat16" and on_gpu and not has_bf16:
        gpu = torch.cuda.get_device_name()
        raise ConfigurationError(
            f"model.compute_dtype is 'bfloat16', and the {gpu} doesn't have it",
            "use --set model.compute_dtype=float32",
        )
    return {
        "use_cpu": not on_gpu,
        "bf16": has_bf16 if compute_dtype == "auto" else compute_dtype == "bfloat16",
    }


def device() -> str:
    """The GPUs that a training would use with their memory, or the cores that it does with."""
    if not torch.cuda.is_available():
        return f"no GPU: trainings run on {torch.get_num_threads()} threads of this machine"
    found = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    names = ", ".join(f"{gpu.name} with {gpu.total_memory / (1 << 30):.0f} GiB" for gpu in found)
    return f"{names}; CUDA {torch.version.cuda}"


def without_cpu_number(arguments: Any) -> Any:
    """Trainer arguments whose device is plain `cpu` where it is a CPU.

    accelerate numbers the CPUs of several processes, and torch.load knows no `cpu:1`: a training
    that is gone on with couldn't read its optimiser.
    """
    if arguments.device.type == "cpu":
        arguments.__dict__["_setup_devices"] = torch.device("cpu")  # a cached property
    return arguments


def release_memory() -> None:
    """Give a training's memory back, once nothing names its model any more, for who comes next."""
    gc.collect()  # trainers and their callbacks name each other
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
