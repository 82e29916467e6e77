"""DPH-RL through the trainer: held problems have a divergence in the place of their rewards.

A batch of P problems has the loss 1/P (sum of the explored ones' policy terms + weight times the
sum of the held ones' divergences): rollouts of a held problem have advantage 0, and the row of its
first rollout brings the problem's stored completion through the model.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sage_cli.methods.dph_rl.formula import divergence, held_completion
from sage_cli.methods.parts.hooks import Batch, Hooks, Setup, Trainer

if TYPE_CHECKING:
    from sage_cli.methods.dph_rl import DphRl

_HELD = "held"
"""What a checkpoint calls the held problems: number, completion, and its log-probabilities."""


class HeldProblems(Hooks):
    """Finds the held problems before the first step, and keeps them in the checkpoints."""

    def __init__(self, method: DphRl, setup: Setup) -> None:
        super().__init__(method, setup)
        self.method = method
        self._logps: dict[int, Tensor] | None = None
        self._chosen: dict[int, int] = {}
        self._here = 0
        self._sum, self._count = 0.0, 0

    @property
    def record(self) -> dict[str, Any]:
        """Return how many problems of the generation batch are held."""
        return {**super().record, "groups/held": self._here}

    def advantages(self, trainer: Trainer, batch: Batch, right_PN: Tensor) -> Tensor:
        """Return the batch's advantages, 0 for rollouts of held problems."""
        held, advantages = self._held(trainer), batch["advantages"]
        held_B = torch.tensor([row in held for row in batch["prompt_row_B"].tolist()])
        held_B = held_B.to(advantages.device)
        self._here = int(trainer.accelerator.gather(held_B).sum()) // right_PN.shape[1]
        shaped_B = held_B.reshape(-1, *[1] * (advantages.dim() - 1))
        return torch.where(shaped_B, torch.zeros_like(advantages), advantages)

    def loss_term(self, trainer: Trainer, batch: Batch) -> Tensor | None:
        """Return the micro-batch's share of the weighted divergences.

        A process whose rows begin no held problem takes any with weight 0 while another has one:
        those that share a model compute in step.
        """
        held, group = self._held(trainer), int(trainer.num_generations)
        if not held or not self.method.weighs:
            return None
        ids = zip(batch["row_ids_B"].tolist(), batch["prompt_row_B"].tolist(), strict=True)
        mine = [row for number, row in ids if number % group == 0 and row in held]
        count = torch.tensor([len(mine)], device=batch["completion_mask"].device)
        if not trainer.accelerator.gather(count).any():
            return None
        total = self._divergences(trainer, mine or [next(iter(held))]).sum()
        if mine:
            self._sum, self._count = self._sum + total.item(), self._count + len(mine)
        weight = self.method.weighs if mine else 0.0
        return weight * group / len(batch["row_ids_B"]) * total

    def figures(self, trainer: Trainer) -> dict[str, float]:
        """Return the step's mean divergence on held problems, if it had any."""
        device = trainer.accelerator.device
        mine = torch.tensor([[self._sum, self._count]], dtype=torch.float32, device=device)
        self._sum, self._count = 0.0, 0
        total, count = trainer.accelerator.gather(mine).sum(dim=0).tolist()
        return {"divergence": total / count} if count else {}

    def _held(self, trainer: Trainer) -> dict[int, Tensor]:
        """Held problems by their number, with the initial policy's log-probabilities.

        Found with the first batch, when the model has its place and its precision.
        """
        if self._logps is None:
            memory = trainer.reward_memory
            if _HELD not in memory:
                self._chosen = self._completions(trainer)
                logps = self._at_start(trainer, list(self._chosen))
                rows = zip(self._chosen.items(), logps, strict=True)
                memory[_HELD] = [[*chosen, _packed(values)] for chosen, values in rows]
            self._chosen = {row: chosen for row, chosen, _ in memory[_HELD]}
            self._logps = {row: _unpacked(values) for row, _, values in memory[_HELD]}
        return self._logps

    def _completions(self, trainer: Trainer) -> dict[int, int]:
        """The held problems and the completion each keeps; a process grades its share of them."""
        state, stored = trainer.accelerator, self.setup.initial
        rows = list(stored)[state.process_index :: state.num_processes]
        golds = [self.setup.prompts[row][1].gold for row in rows for _ in stored[row]]
        texts = [text for row in rows for text, _ in stored[row]]
        grades = iter(self.setup.grader(golds, texts) if texts else ())
        found = []
        for row in rows:
            right = [next(grades).status == "right" for _ in stored[row]]
            found.append((row, held_completion(right, self.method.solved)))
        return {row: one for row, one in sorted(gather_object(found)) if one is not None}

    @torch.no_grad()
    def _at_start(self, trainer: Trainer, rows: Sequence[int]) -> list[list[float]]:
        """Log-probabilities of these problems' completions; each process computes a share."""
        if not rows:
            return []
        state, at_once = trainer.accelerator, trainer.args.per_device_train_batch_size
        share = -(-len(rows) // state.num_processes)
        begin = state.process_index * share
        # the last share is filled up, because processes that share a model compute in step
        mine = [rows[min(i, len(rows) - 1)] for i in range(begin, begin + share)]
        found = []
        for first in range(0, len(mine), at_once):
            logps_BT, mask_BT = self._policy(trainer, mine[first : first + at_once])
            found += [
                row[mask.bool()].tolist() for row, mask in zip(logps_BT, mask_BT, strict=True)
            ]
        together: list[list[float]] = gather_object(found)
        return together[: len(rows)]

    def _divergences(self, trainer: Trainer, rows: Sequence[int]) -> Tensor:
        """(B,): the divergence on each problem's completion, a mean over its tokens."""
        logps_BT, mask_BT = self._policy(trainer, rows)
        start_BT = pad_sequence([self._held(trainer)[row] for row in rows], True).to(logps_BT)
        log_ratio_BT = torch.where(mask_BT.bool(), logps_BT - start_BT, 0.0)
        method = self.method
        values_BT = divergence(
            log_ratio_BT, method.divergence, alpha=method.alpha, limit=method.log_ratio_limit
        )
        return values_BT.sum(dim=1) / mask_BT.sum(dim=1)  # where it is masked u is 1 and f 0

    def _policy(self, trainer: Trainer, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """The policy's log-probabilities (B, T) of these problems' completions, and their mask."""
        prompts = [self.setup.prompts[row][0] for row in rows]
        before = trainer.processing_class(prompts, add_special_tokens=False)["input_ids"]
        after = [self.setup.initial[row][self._chosen[row]][1] for row in rows]
        device = trainer.accelerator.device
        before_BT, before_mask_BT = _padded(before, "left")
        after_BT, mask_BT = _padded(after, "right")
        logps_BT = trainer.plain_logps(
            torch.cat([before_BT, after_BT], dim=1).to(device),
            torch.cat([before_mask_BT, mask_BT], dim=1).to(device),
            after_BT.shape[1],
        )
        return logps_BT, mask_BT.to(device)


def _padded(ids: Sequence[Sequence[int]], side: str) -> tuple[Tensor, Tensor]:
    """Ids and mask (B, T)."""
    rows = [torch.tensor(row) for row in ids]
    mask = [torch.ones_like(row) for row in rows]
    return pad_sequence(rows, True, 0, side), pad_sequence(mask, True, 0, side)


def _packed(values: Sequence[float]) -> str:
    """The bits of float32 values, for JSON: digits would take four times the room."""
    return b64encode(np.asarray(values, np.float32).tobytes()).decode()


def _unpacked(text: str) -> Tensor:
    return torch.tensor(np.frombuffer(b64decode(text), np.float32))
