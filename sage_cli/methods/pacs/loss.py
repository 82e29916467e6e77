"""PACS through the trainer: its loss takes the place of the clipped policy term.

Rows of a group come in different micro-batches, so that a micro-batch can't hold a group's loss.
Before each update a pass without gradient gives every completion's score; from the scores of all
processes follow the gradients with respect to them, and a micro-batch needs those of its own rows
alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sage_cli.methods.pacs.formula import pacs
from sage_cli.methods.parts.hooks import Batch, Hooks, Setup, Trainer

if TYPE_CHECKING:
    from sage_cli.methods.pacs import Pacs


class PacsLoss(Hooks):
    """Hears of each generation batch, then gives the policy term of each micro-batch.

    pi_ref of the paper is the policy that sampled the batch, as in the authors' code.
    """

    def __init__(self, method: Pacs, setup: Setup) -> None:
        super().__init__(method, setup)
        self.beta, self.weighted = method.score_scale, method.balanced_labels
        self._right_PN = torch.empty(0)
        self._step = -1
        self._loss_B = self._credit_B = torch.empty(0)

    def advantages(self, trainer: Trainer, batch: Batch, right_PN: Tensor) -> Tensor:
        """Remember the grades of a new batch. Advantages are 0: TRL's term is the KL's alone."""
        _ = trainer
        self._right_PN, self._step = right_PN, -1
        return torch.zeros_like(batch["advantages"])

    def loss_term(self, trainer: Trainer, batch: Batch) -> Tensor:
        """Return the micro-batch's mean loss, with the exact gradient."""
        step = trainer.state.global_step
        if step != self._step:
            self._step = step
            score_PN = self._scores(trainer, batch).reshape(self._right_PN.shape)
            right_PN = self._right_PN.to(score_PN)
            loss_PN, credit_PN = pacs(score_PN, right_PN, weighted=self.weighted)
            self._loss_B, self._credit_B = loss_PN.flatten(), credit_PN.flatten()
        rows_B = batch["row_ids_B"].to(self._credit_B.device)
        log_pi_B: Tensor = (trainer.logps_BT * batch["completion_mask"]).sum(dim=1)
        pull = -self.beta * (self._credit_B[rows_B] * log_pi_B).mean()
        return self._loss_B[rows_B].mean() + pull - pull.detach()

    def _scores(self, trainer: Trainer, batch: Batch) -> Tensor:
        """R of all rows of the generation batch, in the rows' order; 0 while pi is pi_old."""
        if "old_per_token_logps" not in batch:
            return torch.zeros(self._right_PN.numel(), device=batch["completion_mask"].device)
        found = [
            self._score(micro_batch, trainer.policy_signals(micro_batch)[0])
            for micro_batch in trainer.buffered
        ]
        ids = torch.cat([micro_batch["row_ids_B"] for micro_batch in trainer.buffered])
        score_B = torch.cat(found)
        row_B, all_B = trainer.accelerator.gather((ids.to(score_B.device), score_B))
        ordered_B: Tensor = all_B[row_B.argsort()]
        return ordered_B

    def _score(self, batch: Batch, logps_BT: Tensor) -> Tensor:
        apart_BT: Tensor = (logps_BT - batch["old_per_token_logps"]) * batch["completion_mask"]
        return self.beta * apart_BT.sum(dim=1)
