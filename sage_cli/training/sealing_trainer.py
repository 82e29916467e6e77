"""The RL trainer's checkpoints hold what an advantage keeps from batch to batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sage_cli.store.atomic import write_json
from sage_cli.training.anchored_trainer import AnchoredTrainer
from sage_cli.training.sealed_checkpoints import SealedCheckpoints

_MEMORY = "advantage.json"
"""A checkpoint's file of what an advantage keeps from batch to batch."""


class SealingTrainer(SealedCheckpoints, AnchoredTrainer):
    """AnchoredTrainer whose checkpoints are sealed; `advantage_memory` is part of them."""

    def __init__(self, **arguments: Any) -> None:
        self.advantage_memory: dict[str, Any] = {}
        super().__init__(**arguments)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None and (file := Path(checkpoint) / _MEMORY).is_file():
            self.advantage_memory.update(json.loads(file.read_text(encoding="utf-8")))

    def _complete(self, checkpoint: Path) -> None:
        if self.advantage_memory:
            write_json(checkpoint / _MEMORY, self.advantage_memory)
