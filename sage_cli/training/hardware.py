"""Whether this machine can train as it is asked to: its types, kernels, optimisers and GPUs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch

from sage_cli.config.schema import SageConfig
from sage_cli.counted import counted
from sage_cli.errors import ConfigurationError
from sage_cli.settings.model import (
    ComputeDtype,
    PretrainedModel,
    ScratchModel,
    kernel_arguments,
    trained_dtype,
)
from sage_cli.settings.sft import Optimizer


def precision_arguments(compute_dtype: ComputeDtype) -> dict[str, Any]:
    """Return trainer arguments for `model.compute_dtype`: bfloat16 is of products, not of weights.

    Raises ConfigurationError for bfloat16 on a GPU that doesn't have it.
    """
    if compute_dtype == "bfloat16":
        _require_bf16("model.compute_dtype", "float32")
    on_gpu = torch.cuda.is_available()
    auto = on_gpu and _has_bf16()
    return {
        "use_cpu": not on_gpu,
        "bf16": auto if compute_dtype == "auto" else compute_dtype == "bfloat16",
    }


_PACKAGES = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_interface"}
"""The packages behind names of Transformers' attention; kernels of the Hub need `kernels`."""


def require_kernels(model: PretrainedModel | ScratchModel) -> str:
    """Return a description of the attention, and the Hub's kernels where they are asked for.

    Raises ConfigurationError where a package or a GPU that they need is missing.
    """
    chosen = kernel_arguments(model)
    attention = chosen.get("attn_implementation")
    package = _PACKAGES.get(attention or "")
    if "use_kernels" in chosen or "/" in (attention or ""):
        package = "kernels"
    if package is None:
        return f"attention {attention or 'sdpa if the model supports it'}"
    asked = "model.kernels" if "use_kernels" in chosen else f"model.attention {attention}"
    if find_spec(package) is None:
        raise ConfigurationError(
            f"{asked} needs the package {package}, which is not installed",
            f"install {package}, or use --set model.attention=sdpa and --set model.kernels=false",
        )
    if not torch.cuda.is_available():
        raise ConfigurationError(
            f"{asked} runs on a GPU, and there is none here",
            "use --set model.attention=sdpa and --set model.kernels=false",
        )
    return asked


def require_optimizer(requested: Optimizer, setting: str) -> None:
    """Refuse what `setting` names where it can't run, before any model is loaded.

    Raises ConfigurationError.
    """
    if requested != "adamw_8bit":
        return
    instead = f"use --set {setting}=adamw, whose state takes four times the memory"
    if find_spec("bitsandbytes") is None:
        raise ConfigurationError(
            f"{setting} is 'adamw_8bit', which needs the package bitsandbytes, and it isn't "
            "installed",
            f"pip install -e '.[8bit]' in the checkout of sage, or {instead}",
        )
    if not torch.cuda.is_available():
        raise ConfigurationError(
            f"{setting} is 'adamw_8bit', which needs a GPU, and this machine has none", instead
        )


def check_hardware(config: SageConfig, processes: int, *, with_sft: bool) -> str:
    """Describe what would train in so many processes; `with_sft` trains the initial policy, too.

    Raises ConfigurationError where this machine lacks a type, a kernel or an optimiser, and where
    two processes would share a GPU.
    """
    model = config.model
    in_bf16 = precision_arguments(model.compute_dtype)["bf16"]
    attention = require_kernels(model)
    if trained_dtype(model) == "bfloat16":
        _require_bf16("model.dtype", "float16" if model.tuning == "lora" else "float32")
    there = torch.cuda.device_count() if torch.cuda.is_available() else processes
    if processes > there:
        raise ConfigurationError(
            f"{processes} processes take a GPU each, and this machine has {there}",
            f"use --processes {there}, or several machines (docs/scaling.md)",
        )
    require_optimizer(config.rl.optimizer, "rl.optimizer")
    if with_sft:
        require_optimizer(config.sft.optimizer, "sft.optimizer")
    threads = counted(torch.get_num_threads(), "thread")
    device = f"no GPU; training runs on {threads} of this machine"
    if torch.cuda.is_available():
        gpus = [torch.cuda.get_device_properties(i) for i in range(there)]
        names = ", ".join(f"{gpu.name} with {gpu.total_memory / (1 << 30):.0f} GiB" for gpu in gpus)
        device = f"{names}; CUDA {torch.version.cuda}"
    return f"{device}; computes in {'bfloat16' if in_bf16 else 'float32'} with {attention}"


def _require_bf16(setting: str, instead: str) -> None:
    if torch.cuda.is_available() and not _has_bf16():
        gpu = torch.cuda.get_device_name()
        raise ConfigurationError(
            f"{setting} is 'bfloat16', which the {gpu} does not support",
            f"use --set {setting}={instead}",
        )


def _has_bf16() -> bool:
    """Return True if the GPU has it; torch also counts emulation, slower than float32."""
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))
