"""Forward KL: cross-entropy on completions that the frozen reference sampled once (as DPH-RL does).

On the policy's own samples a correct token-level forward KL has the gradient of k3, so that it
would be GRPO again; the reference's samples make it a method of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sage_cli.errors import TrainingError
from sage_cli.guides.divergences import forward_cross_entropy
from sage_cli.problems.problem import Problem
from sage_cli.store.samples.completion import Completion, token_ids


class ReferenceCompletions:
    """Token ids of the reference's completions as sampled: prompt number -> completions."""

    def __init__(self, ids: Sequence[Sequence[Sequence[int]]]) -> None:
        self.ids = [[torch.tensor(tokens) for tokens in completions] for completions in ids]

    @classmethod
    def encode(
        cls,
        problems: Sequence[Problem],
        completions: Mapping[str, Sequence[Completion]],
        tokenizer: Any,
        stop: str | None,
        rows: Sequence[int],
    ) -> ReferenceCompletions:
        """From stored completions by problem id, of the prompts `rows` that the training comes to.

        End-of-sequence is there where it was sampled, and not after a text that ended at `stop`.
        Raises TrainingError when one of those problems has none.
        """
        ids: list[list[Sequence[int]]] = [[] for _ in problems]
        for row in rows:
            problem = problems[row]
            sampled = completions.get(problem.id, ())
            if not sampled:
                raise TrainingError(
                    f"problem {problem.id} has no completion of the reference, which this training "
                    "takes beforehand",
                    "sample them for every problem of the training",
                )
            ids[row] = [token_ids(tokenizer, completion, stop) for completion in sampled]
        return cls(ids)

    def take(self, prompt_row_B: Tensor, turn_B: Tensor) -> tuple[Tensor, Tensor]:
        """Ids and mask (B, T) of one completion per prompt, going round by `turn_B`."""
        chosen = [
            self.ids[row][turn % len(self.ids[row])]
            for row, turn in zip(prompt_row_B.tolist(), turn_B.tolist(), strict=True)
        ]
        mask = [torch.ones_like(tokens) for tokens in chosen]
        return pad_sequence(chosen, batch_first=True), pad_sequence(mask, batch_first=True)


def forward_kl_loss(
    trainer: Any, model: Any, batch: dict[str, Any], completions: ReferenceCompletions
) -> Tensor:
    """-log pi on one reference completion for each row of the micro-batch, in nats a token.

    Row j of a prompt takes the prompt's completions in turn, from generation to generation, so
    that every completion is used and a resumed run uses the same.
    """
    generation = trainer.state.global_step // trainer.rl.steps_per_batch
    turn_B = batch["row_ids_B"] % trainer.num_generations + generation * trainer.num_generations
    ids_BT, mask_BT = completions.take(batch["prompt_row_B"], turn_B)
    ids_BT, mask_BT = ids_BT.to(batch["prompt_ids"]), mask_BT.to(batch["prompt_mask"])
    logps_BT = trainer._get_per_token_logps_and_entropies(
        model,
        torch.cat([batch["prompt_ids"], ids_BT], dim=1),
        torch.cat([batch["prompt_mask"], mask_BT], dim=1),
        ids_BT.shape[1],
    )[0]
    return forward_cross_entropy(logps_BT, mask_BT)
