"""What every trainer of TRL shares: arguments for this machine, sealed checkpoints, an ordered end.

The end may come by a signal or a lack of room.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import gather
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerState

from sage_cli.errors import (
    ConfigurationError,
    OutOfMemoryError,
    TrainingError,
    is_out_of_memory,
)
from sage_cli.methods.method import Method
from sage_cli.models.verification import require_verified
from sage_cli.settings.inputs import (
    ComputeDtype,
    PretrainedModel,
    ScratchModel,
    kernel_arguments,
    trained_dtype,
)
from sage_cli.settings.training import Optimizer, SftSection
from sage_cli.store.locks import Lease
from sage_cli.store.run import SEAL, Run
from sage_cli.training.checkpoints import interrupted, rotate, saved_step, seal
from sage_cli.training.launch import StopSignals, is_launched

OPTIMIZERS = {"adamw": "adamw_torch_fused", "adamw_8bit": "adamw_8bit"}
"""The trainer's names of the optimisers."""


def scheduler_name(requested: str) -> str:
    """Return the trainer's name for RL's schedule, which warms up whatever follows."""
    return "constant_with_warmup" if requested == "constant" else requested


def precision(compute_dtype: ComputeDtype) -> dict[str, Any]:
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


def common_arguments(
    section: Method | SftSection, output: Path, compute_dtype: ComputeDtype
) -> dict[str, Any]:
    """Return arguments that all trainers of TRL take, with every default that matters by name.

    Raises ConfigurationError as `precision` does.
    """
    return {
        "output_dir": str(output),
        "weight_decay": section.weight_decay,
        "max_grad_norm": section.max_grad_norm,
        "optim": OPTIMIZERS[section.optimizer],
        "gradient_checkpointing": section.gradient_checkpointing,
        "seed": section.seed,
        "data_seed": section.seed,
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        **precision(compute_dtype),
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


def require_hardware(model: PretrainedModel | ScratchModel, processes: int) -> None:
    """Raise ConfigurationError where this machine's GPUs can't train `model` in so many processes.

    Types of which the GPU has none and processes of which two would share a GPU are refused.
    """
    precision(model.compute_dtype)
    require_kernels(model)
    if trained_dtype(model) == "bfloat16":
        _require_bf16("model.dtype", "float16" if model.tuning == "lora" else "float32")
    there = torch.cuda.device_count() if torch.cuda.is_available() else processes
    if processes > there:
        raise ConfigurationError(
            f"{processes} processes take a GPU each, and this machine has {there}",
            f"use --processes {there}, or several machines (docs/scaling.md)",
        )


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


def device() -> str:
    """Return the GPUs that a training would use, with their memory, or the number of threads."""
    if not torch.cuda.is_available():
        threads = torch.get_num_threads()
        counted = "1 thread" if threads == 1 else f"{threads} threads"
        return f"no GPU; training runs on {counted} of this machine"
    gpus = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    names = ", ".join(f"{gpu.name} with {gpu.total_memory / (1 << 30):.0f} GiB" for gpu in gpus)
    return f"{names}; CUDA {torch.version.cuda}"


def without_cpu_number(arguments: Any) -> Any:
    """Return trainer arguments whose device is plain `cpu` where it is a CPU.

    accelerate numbers the CPUs of several processes, and torch.load knows no `cpu:1`: a training
    that is gone on with couldn't read its optimiser.
    """
    if arguments.device.type == "cpu":
        arguments.__dict__["_setup_devices"] = torch.device("cpu")  # a cached property
    return arguments


SAVING_SHARE = 0.05
"""The largest share of a training's time that checkpoints by the clock take."""


class Interruption(TrainerCallback):  # type: ignore[misc]
    """A trainer's callback; as a context, around the training, it hears the signals.

    At every boundary, each `period` optimiser steps, all processes agree on what any of them
    heard: to stop, with a checkpoint, or to save because `save_minutes` have passed since the last
    one, or 19 times as long as that one took. Leaving the context raises Interrupted where the
    training was stopped.
    """

    def __init__(self, run: Run, save_minutes: float, period: int = 1) -> None:
        self.run, self.save_s, self.period = run, 60 * save_minutes, period
        self._signals = StopSignals(patient=is_launched(), period=period)
        self._saved_at = monotonic()
        self._trainer: Any = None

    def watch(self, trainer: Any) -> None:
        """Add this callback to `trainer`."""
        trainer.add_callback(self)
        self._trainer = trainer

    def __enter__(self) -> Interruption:
        self._signals.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._signals.__exit__(kind, *rest)
        if kind is None and self._signals.number:
            raise interrupted(self._signals.number, self.run)

    def on_step_begin(self, _args: Any, state: Any, *_: Any, **__: Any) -> None:
        """Record how far the boundary is, for a signal that arrives within this step."""
        self._signals.done(state.global_step, state.max_steps)

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """At a boundary, request a checkpoint, and the end if a signal asked for it."""
        self._signals.done(state.global_step, state.max_steps)
        if state.global_step % self.period:
            return
        late = monotonic() - self._saved_at >= wait_s(self.save_s, self._trainer.saving_s)
        # the maximum over all processes: each hears signals and reads its clock at another moment,
        # and one that stops alone leaves the others in a collective operation
        number, due = _highest(self._signals.number, int(late))
        if number:
            self._signals.number = number
            control.should_training_stop = True
        if number or due:
            control.should_save = True

    def on_save(self, *_: Any, **__: Any) -> None:
        """Count the minutes from here."""
        self._saved_at = monotonic()


class VerifiedStart(TrainerCallback):  # type: ignore[misc]
    """Has the weights that a training starts from verified before it changes them."""

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        """Raise StoreError if they aren't what was recorded of them."""
        require_verified()


def wait_s(asked_s: float, saving_s: float) -> float:
    """Return seconds from a checkpoint that took `saving_s` to the next one by the clock.

    As asked, or so many that saving takes SAVING_SHARE of the time: saving / (saving + waiting).
    """
    return max(asked_s, saving_s * (1 - SAVING_SHARE) / SAVING_SHARE)


def _highest(*values: int) -> list[int]:
    state = PartialState()
    if state.num_processes == 1:
        return list(values)
    gathered = gather(torch.tensor([values], device=state.device))
    highest: list[int] = gathered.amax(dim=0).tolist()
    return highest


_NEARLY_FULL_BYTES = 16 * 2**20


@contextmanager
def disk_explained(folder: Path, torn: Path) -> Iterator[None]:
    """Turn a write that failed on a full disk into its cause; what was half written is removed."""
    try:
        yield
    except Exception as error:
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        if not full and shutil.disk_usage(folder).free > _NEARLY_FULL_BYTES:
            raise
        shutil.rmtree(torn, ignore_errors=True)
        kept = any(folder.glob(f"checkpoint-*/{SEAL}"))
        raise TrainingError(
            f"the disk of {folder} is full: {torn.name} could not be written",
            ("free some space and run the same command, which resumes from the last checkpoint")
            if kept
            else "free some space and run the same command again",
        ) from error


_GIB = 2**30


@dataclass(frozen=True)
class MemoryNeed:
    """A use of memory, and the settings that reduce it."""

    use: str
    lower: str


LOADING = MemoryNeed(
    "policy, reference and what samples its rollouts",
    "rollout.vllm.memory_share, or set model.tuning=lora",
)


@contextmanager
def memory_explained(need: MemoryNeed, run: Run) -> Iterator[None]:
    """Turn a lack of memory inside, of a GPU or of this machine, into an OutOfMemoryError."""
    try:
        yield
    except (MemoryError, RuntimeError, ValueError, OSError) as error:
        if not is_out_of_memory(error):
            raise
        message = (str(error).strip().splitlines() or [type(error).__name__])[0]
        step = saved_step(run.checkpoints)
        saved = f"; {run.id} is saved at step {step}, where the same command resumes it"
        raise OutOfMemoryError(
            f"training ran out of memory: {_device()} cannot hold {need.use} ({message})",
            f"lower {need.lower}{saved if step else ''}",
        ) from error


def _device() -> str:
    if torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        return f"the GPU of {total / _GIB:.0f} GiB"
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"this machine's memory of {total / _GIB:.0f} GiB"


class SealedCheckpoints(Trainer):  # type: ignore[misc]
    """Comes before a trainer of TRL among the bases of a class."""

    lease: Lease | None = None
    """The lease of the run, without which no checkpoint is sealed; see `carry_out`."""
    saving_s = 0.0
    """How long the last checkpoint took."""

    def __init__(self, *, keep_checkpoints: int | None, **arguments: Any) -> None:
        self._keep_checkpoints = keep_checkpoints
        super().__init__(**arguments)
        self.remove_callback(PrinterCallback)

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """No card: a run's manifest says what a checkpoint is."""

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save without TRL's copy of the adapter, which would be resumed in the policy's place."""
        super()._save(output_dir, state_dict)
        shutil.rmtree(Path(output_dir or self.args.output_dir) / "ref", ignore_errors=True)

    def _complete(self, checkpoint: Path) -> None:
        """Add what else belongs into a checkpoint, before it is sealed."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        began, folder = perf_counter(), Path(self.args.output_dir)
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        with disk_explained(folder, checkpoint):
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                self._complete(checkpoint)
                seal(checkpoint, self.lease)
                rotate(folder, self._keep_checkpoints, int(self.args.save_steps))
        self.saving_s = perf_counter() - began


def carry_out(
    trainer: Any,
    run: Run,
    checkpoint: Path | None,
    save_minutes: float,
    need: MemoryNeed,
    *,
    period: int = 1,
) -> None:
    """Train from `checkpoint`; where that is the last one, take its weights.

    A trainer that went on from its last step would take one more. `need` explains a lack of
    memory; `save_minutes` and `period` are as in `Interruption`. Raises Interrupted where a signal
    stopped the training, and StoreError before the first update if the model was loaded from other
    weights than were recorded of it.
    """
    trainer.lease = run.lease  # which every checkpoint of the trainer requires
    if checkpoint is not None and _is_last(checkpoint, trainer.args.max_steps):
        trainer._load_from_checkpoint(str(checkpoint))
        require_verified()  # no step is left to take, before which they would be
        return
    interruption = Interruption(run, save_minutes, period)
    interruption.watch(trainer)
    trainer.add_callback(VerifiedStart)
    with memory_explained(need, run), interruption:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)


def _is_last(checkpoint: Path, steps: int) -> bool:
    """Return True if a training of so many steps ends there; -1 stands for its epochs' steps."""
    state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    return bool(state.global_step >= (steps if steps > 0 else state.max_steps))


def save_policy(trainer: Any, run: Run) -> None:
    """Leave what was trained in `run.model`, without the trainer's own settings."""
    with disk_explained(run.checkpoints, run.model):
        trainer.save_model(str(run.model))
    if trainer.accelerator.is_main_process:
        (run.model / "training_args.bin").unlink(missing_ok=True)
