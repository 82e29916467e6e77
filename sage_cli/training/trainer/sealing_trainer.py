"""The RL trainer's checkpoints hold whatever else changes from batch to batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sage_cli.store.atomic import write_json
from sage_cli.store.json_files import read_object
from sage_cli.training.checkpoints.sealed import SealedCheckpoints
from sage_cli.training.trainer.anchored_trainer import AnchoredTrainer
from sage_cli.training.trainer.moving_reference import MovingReference

_ADVANTAGE, _REWARD = "advantage.json", "reward.json"
"""A checkpoint's files of what an advantage and a reward keep from batch to batch."""


class SealingTrainer(SealedCheckpoints, AnchoredTrainer):
    """AnchoredTrainer with sealed checkpoints; memories and a moved reference are part of them."""

    moving: MovingReference | None = None
    """Moves the reference, if the anchor asks for it."""

    def __init__(self, **arguments: Any) -> None:
        self.advantage_memory: dict[str, Any] = {}
        self.reward_memory: dict[str, Any] = {}
        super().__init__(**arguments)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        for name, memory in self._memories().items():
            if checkpoint is not None and (file := Path(checkpoint) / name).is_file():
                memory.update(read_object(file, f"remove {checkpoint}"))
        if checkpoint is not None and self.moving is not None:
            self.moving.load(Path(checkpoint))

    def _complete(self, checkpoint: Path) -> None:
        for name, memory in self._memories().items():
            if memory:
                write_json(checkpoint / name, memory)
        if self.moving is not None:
            self.moving.save(checkpoint)

    def _memories(self) -> dict[str, dict[str, Any]]:
        return {_ADVANTAGE: self.advantage_memory, _REWARD: self.reward_memory}
