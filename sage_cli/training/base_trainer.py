"""What every trainer of TRL shares: arguments for this machine, sealed checkpoints, an ordered end.

The end may come by a signal or a lack of room.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from time import perf_counter
from typing import Any

from transformers import PrinterCallback, Trainer, TrainerCallback, TrainerState

from sage_cli.methods.loop import Method
from sage_cli.models.verification import require_verified
from sage_cli.settings.model import ComputeDtype
from sage_cli.settings.sft import SftSection
from sage_cli.store.locks import Lease
from sage_cli.store.run import Run
from sage_cli.training.checkpoints import interrupted, rotate, seal, step_of
from sage_cli.training.hardware import precision_arguments
from sage_cli.training.interruption import Interruption
from sage_cli.training.launch import StopSignals, is_launched
from sage_cli.training.shortage import MemoryNeed, disk_explained, memory_explained

OPTIMIZERS = {"adamw": "adamw_torch_fused", "adamw_8bit": "adamw_8bit"}
"""The trainer's names of the optimisers."""
SCHEDULERS = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}
"""The trainer's names of RL's schedules, which warm up whatever follows."""


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
        **precision_arguments(compute_dtype),
    }


class VerifiedStart(TrainerCallback):  # type: ignore[misc]
    """Has the weights that a training starts from verified before it changes them."""

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        """Raise StoreError if they aren't what was recorded of them."""
        require_verified()


class SealedCheckpoints(Trainer):  # type: ignore[misc]
    """Comes before a trainer of TRL among the bases of a class."""

    lease: Lease | None = None
    """The lease of the run, without which no checkpoint is sealed; see `run_trainer`."""
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


def run_trainer(
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
    memory; `save_minutes` is as in `Interruption`, `period` as in `StopSignals`. Raises Interrupted
    where a signal stopped the training, and StoreError before the first update if the model was
    loaded from other weights than were recorded of it.
    """
    trainer.lease = run.lease  # which every checkpoint of the trainer requires
    if checkpoint is not None and _is_last(checkpoint, trainer.args.max_steps):
        trainer._load_from_checkpoint(str(checkpoint))
        require_verified()  # no step is left to take, before which they would be
        return
    signals = StopSignals(patient=is_launched(), period=period)
    trainer.add_callback(Interruption(trainer, signals, save_minutes))
    trainer.add_callback(VerifiedStart)
    signals.done(step_of(checkpoint) if checkpoint else 0, trainer.args.max_steps)
    with memory_explained(need, run), signals:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if signals.number:
        raise interrupted(signals.number, run)


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
