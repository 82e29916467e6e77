"""A trainer's checkpoints, sealed once they are whole, and its training from one of them on."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from transformers import PrinterCallback, Trainer

from sage_cli.errors import TrainingError
from sage_cli.store.lease import Lease
from sage_cli.store.runs.run import SEAL, Run
from sage_cli.training.checkpoints.checkpoints import rotate, seal
from sage_cli.training.checkpoints.interruption import Interruption
from sage_cli.training.launch.memory_errors import MemoryNeed, memory_explained

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
            f"the disk of {folder} is full: {torn.name} couldn't be written",
            "make room and run the same command: it resumes from the last checkpoint"
            if kept
            else "make room and run the same command again",
        ) from error


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
    interruption: Interruption,
    need: MemoryNeed,
    *,
    finished: bool,
) -> None:
    """Train from `checkpoint`; where that is the last one (`finished`), take its weights.

    A trainer that went on from its last step would take one more. `need` explains a lack of
    memory. Raises Interrupted where a signal stopped the training.
    """
    trainer.lease = run.lease  # which every checkpoint of the trainer requires
    if finished:
        trainer._load_from_checkpoint(str(checkpoint))
        return
    interruption.watch(trainer)
    with memory_explained(need, run), interruption:
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)


def save_policy(trainer: Any, run: Run) -> None:
    """Leave what was trained in `run.model`, without the trainer's own settings."""
    with disk_explained(run.checkpoints, run.model):
        trainer.save_model(str(run.model))
    if trainer.accelerator.is_main_process:
        (run.model / "training_args.bin").unlink(missing_ok=True)
