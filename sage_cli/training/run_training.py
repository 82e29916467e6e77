"""A training from where it stands to its last step, whichever trainer it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sage_cli.store.runs.run import Run
from sage_cli.training.checkpoints.disk_errors import disk_explained
from sage_cli.training.checkpoints.interruption import Interruption
from sage_cli.training.launch.memory_errors import MemoryNeed, memory_explained


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
