"""The trainer that samples rollouts: by whom, how many, and in what time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sage_cli.methods.hooks import Generated, Row
from sage_cli.store.atomic import write_json
from sage_cli.store.json_files import read_object
from sage_cli.training.checkpoints.sealed import SealedCheckpoints
from sage_cli.training.rl_inputs import Ids, SampleRollouts
from sage_cli.training.rollouts.noted import Noted, lengths_of
from sage_cli.training.rollouts.vllm import ask_for_each_row, merge_beside
from sage_cli.training.trainer.anchored_trainer import AnchoredTrainer
from sage_cli.training.trainer.batch_record import Phases
from sage_cli.training.trainer.reference import MovingReference
from sage_cli.training.trainer.token_record import add_mismatch, mismatch_statistics

_ADVANTAGE, _REWARD = "advantage.json", "reward.json"
"""A checkpoint's files of what an advantage and a reward keep from batch to batch."""
SAMPLED = ("sampled/completions", "sampled/tokens")
"""What a step has sampled, what dynamic sampling discards among it; 0 where it samples nothing."""


class RolloutTrainer(SealedCheckpoints, AnchoredTrainer):
    """AnchoredTrainer whose completions are sampled by `sample`, or by TRL where there is none.

    `phases` has the seconds of the step at hand; what is sampled is `noted`. Its checkpoints hold
    memories and a moved reference, too.
    """

    moving: MovingReference | None = None
    """Moves the reference, if the anchor asks for it."""

    def __init__(self, *, sample: SampleRollouts | None, noted: Noted, **arguments: Any) -> None:
        self.sample_rollouts, self.noted = sample, noted
        self.phases = Phases()
        self._beforehand: Generated | None = None
        self._count = [0, 0]
        self.advantage_memory: dict[str, Any] = {}
        self.reward_memory: dict[str, Any] = {}
        super().__init__(**arguments)
        if self.use_vllm:
            merge_beside(self.vllm_generation)
            ask_for_each_row(self.vllm_generation)
            timed = self.phases.during("sync")
            self.vllm_generation.sync_weights = timed(self.vllm_generation.sync_weights)

    def begin_rollouts(self) -> None:
        """Count from here what the generation batch at hand samples."""
        self._count = [0, 0]
        self.noted.begin(self.state.global_step + 1)

    def generate_rows(self, rows: Sequence[Row]) -> Generated:
        """Completions for rows of the data set, in TRL's form."""
        return tuple(self._generate([row["prompt"] for row in rows]))

    def take_rows(self, sampled: Generated | None) -> None:
        """Have the next generation be these completions; None has the trainer sample them."""
        self._beforehand = sampled

    def _generate(self, prompts: list[Any]) -> Any:
        sampled, self._beforehand = self._beforehand, None
        if sampled is None:
            with self.phases.during("generate"):
                sampled = super()._generate(prompts)
            self._count[0] += len(prompts)
            self._count[1] += sum(lengths_of(sampled))
        self.noted.generated = sampled
        return sampled

    def _generate_single_turn(self, prompt_ids: list[Ids], *images: Any, **named: Any) -> Any:
        """Completions' token ids, and None: their probabilities are the trainer's own."""
        if self.sample_rollouts is None:
            return super()._generate_single_turn(prompt_ids, *images, **named)
        model = self.accelerator.unwrap_model(self.model_wrapped)
        batch = f"{self.state.global_step}:{self.accelerator.process_index}"
        return self.sample_rollouts(model, prompt_ids, batch, self._count[0]), None

    def _shape_anchor(self, batch: dict[str, Any], logps_BT: Tensor, entropy_BT: Tensor) -> None:
        super()._shape_anchor(batch, logps_BT, entropy_BT)
        self.noted.learned(batch, logps_BT)
        if "sampling_per_token_logps" in batch:
            whole = self.vllm_importance_sampling_mode.startswith("sequence")
            add_mismatch(self.tokens, batch, logps_BT, whole=whole)

    def mismatch_record(self, signals: dict[str, Tensor]) -> dict[str, float]:
        """Return what log-probabilities of the engine differ by from the trainer's."""
        corrected = self.vllm_importance_sampling_correction
        cap = self.vllm_importance_sampling_clip_max if corrected else None
        return mismatch_statistics(signals, cap)

    def sampled_record(self) -> dict[str, float]:
        """Return what was sampled since `begin_rollouts`."""
        device = self.accelerator.device
        count = self.accelerator.gather(torch.tensor([self._count], device=device)).sum(dim=0)
        return dict(zip(SAMPLED, count.tolist(), strict=True))

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
