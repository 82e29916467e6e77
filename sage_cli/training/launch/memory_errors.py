"""Running out of memory, in the user's words: what was asked for, what may fit, what to change."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from sage_cli.config.fields import settings
from sage_cli.config.launching import spread_over
from sage_cli.config.specs import RlSpec
from sage_cli.errors import OutOfMemoryError
from sage_cli.methods.method import Method, batch_of
from sage_cli.settings.sections.training import SftSection
from sage_cli.settings.sharding import sharded_by
from sage_cli.store.runs.run import Run
from sage_cli.training.checkpoints.checkpoints import saved_step

SHOWN = 3
"""How many settings to change are named."""
_GIB = 2**30
_NO_MEMORY = re.compile(
    r"out of memory|can't allocate memory|No available memory for the cache|KV cache is needed|"
    r"less than desired GPU memory utilization",
    re.I,
)
"""What PyTorch on CPUs and vLLM at its start say, in errors of no kind of their own."""


@dataclass(frozen=True)
class MemoryNeed:
    """A use of memory, and the settings that reduce it, the best first.

    `micro_batch`, where it counts, is the setting's name and value: how much of it may fit is
    worked out.
    """

    what: str
    changes: Mapping[str, Any]
    micro_batch: tuple[str, int] | None = field(default=None)


def loading(recipe: RlSpec) -> MemoryNeed:
    """The weights of policy, reference and rollout engine, before anything is trained."""
    model, vllm = recipe.model, recipe.rollout.vllm
    changes: dict[str, Any] = {}
    if recipe.rollout.may_use_vllm and vllm.mode == "colocate":
        changes["rollout.vllm.memory_share"] = f"{vllm.memory_share / 2:.2g}"
        changes["rollout.backend"] = "transformers"
    if model.tuning == "full":
        changes["model.tuning"] = "lora"
    elif model.dtype != "bfloat16":
        changes["model.dtype"] = "bfloat16"
    changes |= _sharded(recipe.rl)
    if recipe.rl.optimizer != "adamw_8bit" and sharded_by(recipe.rl.accelerate) is None:
        changes["rl.optimizer"] = "adamw_8bit"
    return MemoryNeed("policy, reference and what samples its rollouts", changes)


def training(recipe: RlSpec, processes: int) -> MemoryNeed:
    """A micro-batch of completions with all that its gradients need, beside the weights."""
    rl, rollout = recipe.rl, recipe.rollout
    micro_batch = batch_of(rl, processes).micro_batch
    changes: dict[str, Any] = {}
    if not rl.gradient_checkpointing:
        changes["rl.gradient_checkpointing"] = "true"
    if rollout.backend == "vllm" and rollout.vllm.mode == "colocate" and not rollout.vllm.sleep:
        changes["rollout.vllm.sleep"] = "true"
    changes["rollout.max_tokens"] = max(1, rollout.max_tokens // 2)
    if recipe.model.tuning == "full":
        changes["model.tuning"] = "lora"
    changes |= _sharded(recipe.rl)
    what = f"{micro_batch} completions of up to {rollout.max_tokens:,} tokens at once"
    return MemoryNeed(what, changes, ("rl.micro_batch", micro_batch))


def warming_up(section: SftSection) -> MemoryNeed:
    """A micro-batch of demonstrations."""
    micro_batch = section.micro_batch or section.batch_size
    changes: dict[str, Any] = {}
    if not section.gradient_checkpointing:
        changes["sft.gradient_checkpointing"] = "true"
    changes["sft.max_length"] = max(8, section.max_length // 2)
    changes |= {"model.tuning": "lora", "sft.optimizer": "adamw_8bit"}
    what = f"{micro_batch} demonstrations of up to {section.max_length:,} tokens at once"
    return MemoryNeed(what, changes, ("sft.micro_batch", micro_batch))


@contextmanager
def memory_explained(need: MemoryNeed, run: Run) -> Iterator[None]:
    """Turn a lack of memory inside, of a GPU or of this machine, into an OutOfMemoryError."""
    resident = _allocated()
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError, RuntimeError, ValueError) as error:
        by_kind = isinstance(error, torch.OutOfMemoryError | MemoryError)
        if not by_kind and not _NO_MEMORY.search(str(error)):
            raise
        where, total = _device()
        message = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise OutOfMemoryError(
            f"the training ran out of memory: {where} of {total / _GIB:.0f} GiB can't hold "
            f"{need.what} ({message})",
            advice(need, resident, _peak(), total) + _saved(run),
        ) from error


def advice(need: MemoryNeed, resident: int, peak: int, total: int) -> str:
    """Three settings to change, and which of them let the run go on."""
    changes = dict(need.changes)
    if need.micro_batch is not None and need.micro_batch[1] > 1:
        name, wanted = need.micro_batch
        fits = fitting_micro_batch(wanted, resident, peak, total)
        changes = {name: f"{fits}, which may fit", **changes}
    named = list(changes)[:SHOWN]
    keeping = [name for name in named if settings()[name].cosmetic]
    text = "change one of " + "; ".join(f"{name}={changes[name]}" for name in named)
    others = "the others make another run" if len(keeping) < len(named) else ""
    kept = f"with {' or '.join(keeping)} this run is resumed" if keeping else ""
    return text + "".join(f"; {part}" for part in (kept, others if keeping else "") if part)


def fitting_micro_batch(micro_batch: int, resident: int, peak: int, total: int) -> int:
    """Rows that may fit into `total` bytes, a tenth kept free; at least 1.

    What lies above `resident` (weights) at the `peak` is taken to grow with the micro-batch; the
    peak was cut short, so it counts as the whole of the memory at least.
    """
    per_row = max(peak, total) - resident
    room = 0.9 * total - resident
    return max(1, min(micro_batch - 1, math.floor(micro_batch * room / max(per_row, 1))))


def _sharded(rl: Method) -> dict[str, str]:
    """Twice as many processes that hold a share each, where the method can be spread."""
    spread = spread_over(2 * rl.processes, rl)
    return {"rl.processes": spread} if spread else {}


def _saved(run: Run) -> str:
    step = saved_step(run.checkpoints)
    if not step:
        return ""
    return f". {run.id} is saved at step {step}, where the same command resumes it"


def _device() -> tuple[str, int]:
    if torch.cuda.is_available():
        return "the GPU", int(torch.cuda.get_device_properties(0).total_memory)
    return "this machine's memory", os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _allocated() -> int:
    return int(torch.cuda.memory_allocated()) if torch.cuda.is_available() else 0


def _peak() -> int:
    return int(torch.cuda.max_memory_allocated()) if torch.cuda.is_available() else 0
