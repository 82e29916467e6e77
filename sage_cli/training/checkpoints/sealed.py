"""A trainer's checkpoints: sealed once they are whole, a few of them kept."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from transformers import Trainer

from sage_cli.store.lease import Lease
from sage_cli.training.checkpoints.checkpoints import rotate, seal
from sage_cli.training.checkpoints.disk_errors import disk_explained


class SealedCheckpoints(Trainer):  # type: ignore[misc]
    """Comes before a trainer of TRL among the bases of a class."""

    lease: Lease | None = None
    """The lease of the run, without which no checkpoint is sealed; see `carry_out`."""

    def __init__(self, *, keep_checkpoints: int | None, **arguments: Any) -> None:
        self._keep_checkpoints = keep_checkpoints
        super().__init__(**arguments)

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """No card: a run's manifest says what a checkpoint is."""

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save without TRL's copy of the adapter, which would be resumed in the policy's place."""
        super()._save(output_dir, state_dict)
        shutil.rmtree(Path(output_dir or self.args.output_dir) / "ref", ignore_errors=True)

    def _complete(self, checkpoint: Path) -> None:
        """Add what else belongs into a checkpoint, before it is sealed."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self.args.output_dir)
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        with disk_explained(folder, checkpoint):
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                self._complete(checkpoint)
                seal(checkpoint, self.lease)
                rotate(folder, self._keep_checkpoints, int(self.args.save_steps))
