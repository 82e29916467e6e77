"""Rows that were admitted together and advance in step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sage_cli.errors import SamplingError
from sage_cli.sampling.memory import CohortMemory
from sage_cli.sampling.own_tokens import OwnTokens
from sage_cli.sampling.prompts import PromptMemory, SharedPrompts
from sage_cli.sampling.sampler import SampleRequest, sample_seed


class Prompt:
    """A problem's prompt, read by the model once: its memory and the logits after it (V,)."""

    def __init__(self, model: Any, request: SampleRequest, ids: Sequence[int]) -> None:
        if not ids:
            raise SamplingError(f"the prompt of problem {request.problem_id} is empty")
        self.request, self.length, self.memory = request, len(ids), PromptMemory()
        ids_1T = torch.tensor([ids], device=model.device)
        output = model(input_ids=ids_1T, use_cache=False, logits_to_keep=1, memory=self.memory)
        self.logits_V = output.logits[0, -1]
        if len(self.memory.keys_Y) != model.config.get_text_config().num_hidden_layers:
            raise SamplingError(
                f"{type(model).__name__} has layers whose attention can't be replaced",
                "use --set sampling.backend=vllm or server for this architecture",
            )


class Cohort:
    """Samples of one or several problems, a row each; every row has equally many own tokens."""

    def __init__(self, rows: Sequence[tuple[Prompt, int]], seed: int, own: OwnTokens) -> None:
        prompts = list(dict.fromkeys(prompt for prompt, _ in rows))
        groups_B = [prompts.index(prompt) for prompt, _ in rows]
        shared = SharedPrompts([prompt.memory for prompt in prompts], groups_B)
        self.memory = CohortMemory(shared, own)
        self.first_logits_BV = torch.stack([prompt.logits_V for prompt in prompts])[groups_B]
        self.problem_ids = [prompt.request.problem_id for prompt, _ in rows]
        self.indices = [index for _, index in rows]
        self.seeds_B = np.array(
            [sample_seed(seed, *key) for key in zip(self.problem_ids, self.indices, strict=True)],
            dtype=np.uint64,
        )
        self._starts_B = np.array([prompt.length for prompt, _ in rows])
        self._tokens_BT = np.zeros((len(rows), 32), dtype=np.int64)
        self.count = 0
        """Tokens drawn so far, the same for every row."""

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def last_tokens(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The input of the next step."""
        return self._tokens_BT[:, self.count - 1]

    @property
    def positions(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Where the last tokens stand, counted from the start of the prompt."""
        return self._starts_B + (self.count - 1)

    def tokens(self, rows: Sequence[int]) -> list[list[int]]:
        """All that these rows have drawn."""
        drawn: list[list[int]] = self._tokens_BT[rows, : self.count].tolist()
        return drawn

    def append(self, tokens_B: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        """Add one token to every row."""
        if self.count == self._tokens_BT.shape[1]:
            self._tokens_BT = np.pad(self._tokens_BT, ((0, 0), (0, self.count)))
        self._tokens_BT[:, self.count] = tokens_B
        self.count += 1

    def drop(self, finished: Sequence[int]) -> None:
        """Remove rows by moving the last ones into their places."""
        keep, gone = len(self) - len(finished), set(finished)
        holes = [row for row in finished if row < keep]
        movers = [row for row in range(keep, len(self)) if row not in gone]
        for hole, mover in zip(holes, movers, strict=True):
            self.problem_ids[hole] = self.problem_ids[mover]
            self.indices[hole] = self.indices[mover]
        for column in (self._starts_B, self.seeds_B, self._tokens_BT):
            column[holes] = column[movers]
        self.memory.keep(holes, movers, keep)
        del self.problem_ids[keep:], self.indices[keep:]
        self._starts_B, self.seeds_B = self._starts_B[:keep], self.seeds_B[:keep]
        self._tokens_BT = self._tokens_BT[:keep]
