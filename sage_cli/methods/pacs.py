"""PACS (Li et al. 2025): grades as labels of the policy's log-ratios, a loss over each group.

Rows of a group come in different micro-batches, so that a micro-batch can't hold a group's loss.
Before each update a pass without gradient gives every completion's score; from the scores of all
processes follow the gradients with respect to them, and a micro-batch needs those of its own rows
alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from sage_cli.methods.hooks import Hooks, Rollouts, Setup, Trainer
from sage_cli.methods.online import OnlineMethod
from sage_cli.methods.rollout_batch import RolloutBatch, learned_tokens

if TYPE_CHECKING:
    from torch import Tensor


class Pacs(OnlineMethod):
    """PACS (Li et al. 2025). The anchor's term keeps `grpo`'s mean."""

    algo: Literal["pacs"] = "pacs"
    score_scale: float = Field(1.0, gt=0)
    """Weight that the log-ratio has in a completion's score."""
    balanced_labels: bool = True
    """Whether the correct and the wrong completions of a group have the same total weight, whatever
    their numbers."""

    source = (
        "Li et al. 2025 (arXiv 2509.02522): grades as labels of the policy's log-ratios, a "
        "cross-entropy over each group; no advantages, no clipping"
    )
    read_from = "code"
    kl_without_guide = "none"
    reads_grades_alone = True  # labels are correct or wrong

    def hooks(self, setup: Setup) -> Hooks:
        """Return what puts its loss in the place of the clipped policy term."""
        return PacsLoss(self, setup)

    def describe(self) -> dict[str, Any]:
        """Return the loss."""
        weighted = (
            "correct and wrong completions of a group weigh the same"
            if self.balanced_labels
            else "unweighted"
        )
        loss = f"pacs, log-ratio x {self.score_scale:g}, {weighted}, no clipping"
        return {"loss": loss, **super().describe()}


def pacs(score_PN: Tensor, right_PN: Tensor, *, weighted: bool) -> tuple[Tensor, Tensor]:
    """Losses (P, N) of completions, and their negative gradients a with respect to the scores.

    A completion's score R is beta sum_t (log pi - log pi_old); psi is R minus the mean of its
    group's others. The loss is w BCE(sigmoid(psi), r). A score is in the psi of the whole group, so
    that the gradient of the losses' sum is -a with a = h - mean of the others' h and
    h = w (r - sigmoid(psi)).
    """
    import torch
    from torch.nn.functional import binary_cross_entropy_with_logits

    weight_PN = label_weights(right_PN) if weighted else torch.ones_like(score_PN)
    psi_PN = score_PN - others_mean(score_PN)
    loss_PN = weight_PN * binary_cross_entropy_with_logits(psi_PN, right_PN, reduction="none")
    h_PN = weight_PN * (right_PN - psi_PN.sigmoid())
    return loss_PN, h_PN - others_mean(h_PN)


def label_weights(right_PN: Tensor) -> Tensor:
    """N / (2 n) where n of a group's N completions have the same grade; 1 where all have it."""
    import torch

    size = right_PN.shape[1]
    right_P1 = right_PN.sum(dim=1, keepdim=True)
    same_PN = torch.where(right_PN == 1, right_P1, size - right_P1)
    mixed_P1 = (right_P1 > 0) & (right_P1 < size)
    return torch.where(mixed_P1, size / (2 * same_PN), torch.ones_like(right_PN))


def others_mean(values_PN: Tensor) -> Tensor:
    """For each completion the mean over the others of its group."""
    return (values_PN.sum(dim=1, keepdim=True) - values_PN) / (values_PN.shape[1] - 1)


class PacsLoss(Hooks):
    """Receives each generation batch, then returns the policy term of each micro-batch.

    pi_ref of the paper is the policy that sampled the batch, as in the authors' code.
    """

    def __init__(self, method: Pacs, setup: Setup) -> None:
        import torch

        super().__init__(method, setup)
        self.beta, self.weighted = method.score_scale, method.balanced_labels
        self._right_PN = torch.empty(0)
        self._step = -1
        self._loss_B = self._credit_B = torch.empty(0)

    def advantages(self, trainer: Trainer, rollouts: Rollouts) -> Tensor:
        """Remember the grades of a new batch. Advantages are 0: TRL's term is the KL's alone."""
        import torch

        _ = trainer
        self._right_PN, self._step = rollouts.right_PN, -1
        return torch.zeros_like(rollouts.batch["advantages"])

    def loss_term(self, trainer: Trainer, batch: RolloutBatch, logps_BT: Tensor) -> Tensor:
        """Return the micro-batch's mean loss, with the exact gradient."""
        step = trainer.state.global_step
        if step != self._step:
            self._step = step
            score_PN = self._scores(trainer, batch).reshape(self._right_PN.shape)
            right_PN = self._right_PN.to(score_PN)
            loss_PN, credit_PN = pacs(score_PN, right_PN, weighted=self.weighted)
            self._loss_B, self._credit_B = loss_PN.flatten(), credit_PN.flatten()
        rows_B = batch["row_ids_B"].to(self._credit_B.device)
        log_pi_B: Tensor = (logps_BT * learned_tokens(batch)).sum(dim=1)
        # the gradient of the whole group's loss with respect to this row's score, times the score's
        # gradient: rows of a group need not be in one micro-batch
        pull = -self.beta * (self._credit_B[rows_B] * log_pi_B).mean()
        # the value is the loss, the gradient that of `pull`
        return self._loss_B[rows_B].mean() + pull - pull.detach()

    def _scores(self, trainer: Trainer, batch: RolloutBatch) -> Tensor:
        """R of all rows of the generation batch, in the rows' order; 0 while pi is pi_old."""
        import torch

        if "old_per_token_logps" not in batch:
            return torch.zeros(self._right_PN.numel(), device=batch["completion_mask"].device)
        scores = [
            self._score(micro_batch, trainer.policy_signals(micro_batch)[0])
            for micro_batch in trainer.buffered
        ]
        ids = torch.cat([micro_batch["row_ids_B"] for micro_batch in trainer.buffered])
        score_B = torch.cat(scores)
        row_B, all_B = trainer.accelerator.gather((ids.to(score_B.device), score_B))
        # TRL has shuffled the rows, and each process has others: sorted by id they are the
        # generation batch again
        ordered_B: Tensor = all_B[row_B.argsort()]
        return ordered_B

    def _score(self, batch: RolloutBatch, logps_BT: Tensor) -> Tensor:
        apart_BT: Tensor = (logps_BT - batch["old_per_token_logps"]) * batch["completion_mask"]
        return self.beta * apart_BT.sum(dim=1)
