"""NudgeRL through the trainer: rows with contexts, their advantages, and the distillation.

A row with a context has the context's prompt, under which policy, anchor and guide see it. The
distillation takes each completion through the model once more, behind the plain prompt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import gather_object
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sage_cli.methods.nudge.formula import PLAIN, contexts_of, nudged_advantages
from sage_cli.methods.parts.dynamic_sampling import Generated, Row
from sage_cli.methods.parts.hooks import Batch, Hooks, Setup, Trainer

if TYPE_CHECKING:
    from sage_cli.methods.nudge import Nudge


class NudgedRollouts(Hooks):
    """Asks with contexts, and learns from the completions with and without them."""

    def __init__(self, method: Nudge, setup: Setup) -> None:
        super().__init__(method, setup)
        self.method = method
        self._mine: list[int] = []
        self._said: dict[str, float] = {}

    @property
    def record(self) -> dict[str, Any]:
        """Return the share of rollouts with a context, and mean rewards with and without."""
        return {**super().record, **self._said}

    def sample(self, trainer: Trainer, rows: list[Row]) -> tuple[list[Row], Generated | None]:
        """Return the rows with their contexts' prompts, to be sampled as usual."""
        group, step = int(trainer.num_generations), trainer.state.global_step
        first = trainer.accelerator.process_index * len(rows)
        asked, self._mine = [], []
        for number, row in enumerate(rows, start=first):
            texts = self.setup.contexts(row["row"])
            seed = (self.method.seed, step, number // group)
            of_group = contexts_of(len(texts), group, self.method.dropout, seed)
            context = of_group[number % group]
            asked.append(row if context == PLAIN else {**row, "prompt": texts[context]})
            self._mine.append(context)
        return asked, None

    def advantages(self, trainer: Trainer, batch: Batch, right_PN: Tensor) -> Tensor:
        """Return `nudged_advantages` of all processes' rewards, this process's rows."""
        rewards_PN = trainer.rewards_BF.sum(dim=1).reshape(right_PN.shape)
        context_B = torch.tensor(gather_object(self._mine), device=rewards_PN.device)
        found_PN = nudged_advantages(
            rewards_PN, context_B.reshape(right_PN.shape), self.method.between
        )
        self._said = _said(rewards_PN.flatten(), context_B != PLAIN)
        return found_PN.flatten()[batch["row_ids_B"]]

    def loss_term(self, trainer: Trainer, batch: Batch) -> Tensor | None:
        """Return the weighted distillation: -mean of A times the mean log pi behind plain prompts.

        All rows are read, plain ones too, so that processes which share a model compute in step.
        """
        if not self.method.distillation:
            return None
        logps_BT, mask_BT = self._without_contexts(trainer, batch)
        mean_B = (logps_BT * mask_BT).sum(dim=1) / mask_BT.sum(dim=1).clamp(min=1)
        learnt: Tensor = (batch["advantages"] * mean_B).mean()
        return -self.method.distillation * learnt

    def _without_contexts(self, trainer: Trainer, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return log-probabilities (B, T) of the rows' answers behind plain prompts, their mask.

        Where the policy continues a context, the context's text is part of the answer.
        """
        places = batch["prompt_row_B"].tolist()
        texts = [self.setup.prompts[place][0] for place in places]
        before = trainer.processing_class(texts, add_special_tokens=False)["input_ids"]
        after = _tokens(batch, "completion")
        if self.method.continued:
            asked = _tokens(batch, "prompt")
            ends = [len(ids) for ids in before]
            before = [ids[:end] for ids, end in zip(asked, ends, strict=True)]
            begun = [ids[end:] for ids, end in zip(asked, ends, strict=True)]
            after = [[*begin, *rest] for begin, rest in zip(begun, after, strict=True)]
        before_BT, before_mask_BT = _padded(before, "left")
        after_BT, mask_BT = _padded(after, "right")
        device = batch["completion_ids"].device
        logps_BT = trainer.plain_logps(
            torch.cat([before_BT, after_BT], dim=1).to(device),
            torch.cat([before_mask_BT, mask_BT], dim=1).to(device),
            after_BT.shape[1],
        )
        return logps_BT, mask_BT.to(device)


def _said(reward_B: Tensor, nudged_B: Tensor) -> dict[str, float]:
    """Return the record; a mean over no rollouts is left out."""
    found = {"nudge/share": nudged_B.float().mean().item()}
    for name, rows_B in (("nudge/reward", nudged_B), ("nudge/plain_reward", ~nudged_B)):
        if rows_B.any():
            found[name] = reward_B[rows_B].mean().item()
    return found


def _tokens(batch: Batch, name: str) -> list[list[int]]:
    """Return the rows' tokens without padding."""
    pairs = zip(batch[f"{name}_ids"], batch[f"{name}_mask"], strict=True)
    return [ids[mask.bool()].tolist() for ids, mask in pairs]


def _padded(ids: list[list[int]], side: str) -> tuple[Tensor, Tensor]:
    """Return ids and mask (B, T)."""
    rows = [torch.tensor(row, dtype=torch.long) for row in ids]
    mask = [torch.ones_like(row) for row in rows]
    return pad_sequence(rows, True, 0, side), pad_sequence(mask, True, 0, side)
