"""The RL trainer's checkpoints: sealed once they are whole, a few of them kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from sage_cli.store.atomic import write_json
from sage_cli.training.anchored_trainer import AnchoredTrainer
from sage_cli.training.checkpoints import rotate, seal
from sage_cli.training.disk_errors import disk_explained

_MEMORY = "advantage.json"
"""A checkpoint's file of what an advantage keeps from batch to batch."""


class SealingTrainer(AnchoredTrainer):
    """AnchoredTrainer whose checkpoints are sealed; `advantage_memory` is part of them."""

    def __init__(self, *, keep_checkpoints: int | None, **arguments: Any) -> None:
        self._keep_checkpoints = keep_checkpoints
        self.advantage_memory: dict[str, Any] = {}
        super().__init__(**arguments)

    def create_model_card(self, *_: Any, **__: Any) -> None:
        """No card: a run's manifest says what a checkpoint is."""

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Save without TRL's copy of the adapter, which would be resumed in the policy's place."""
        super()._save(output_dir, state_dict)
        shutil.rmtree(Path(output_dir or self.args.output_dir) / "ref", ignore_errors=True)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and (file := Path(checkpoint) / _MEMORY).is_file():
            self.advantage_memory.update(json.loads(file.read_text(encoding="utf-8")))

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self.args.output_dir)
        checkpoint = folder / f"checkpoint-{self.state.global_step}"
        with disk_explained(folder, checkpoint):
            super()._save_checkpoint(model, trial)
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                if self.advantage_memory:
                    write_json(checkpoint / _MEMORY, self.advantage_memory)
                seal(checkpoint)
                rotate(folder, self._keep_checkpoints, int(self.args.save_steps))
