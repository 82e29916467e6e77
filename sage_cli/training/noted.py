"""Completions of a training on their way into its store, with what the losses learn of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import Tensor

from sage_cli.grading.grades import STATUSES
from sage_cli.methods.hooks import Generated, GradeReward, Row
from sage_cli.store.ledger import PromptRow, Sampled, TrainingCompletions, TrainingLedger

KEPT_IDS = "kept_ids_B"
"""Where a batch carries the numbers under which its completions are kept."""


@dataclass(eq=False)
class _Waiting:
    """Completions that are kept under the numbers from `first`, until all losses have read them."""

    first: int
    sampled: Sampled
    advantage_B: np.ndarray
    policy_logps_BT: np.ndarray


class Kept:
    """Keeps this process's completions of a generation batch until the next one begins.

    What is stored of a completion becomes known in the order of a step: `scored` has its tokens,
    grade and rewards, `learned` in each loss its advantage and log-probabilities. With the next
    batch, or a checkpoint, `pass_on` hands it to `store`.
    """

    def __init__(self, store: TrainingCompletions) -> None:
        self.store = store
        self._waiting: list[_Waiting] = []
        self._count = 0

    def scored(self, batch: dict[str, Any], sampled: Sampled) -> None:
        """Keep the completions of a scored batch, which gets their numbers."""
        count = len(sampled.texts)
        batch[KEPT_IDS] = torch.arange(self._count, self._count + count)
        self._waiting.append(
            _Waiting(
                self._count,
                replace(
                    sampled,
                    reference_logps_BT=_numbers(batch.get("ref_per_token_logps")),
                    engine_logps_BT=_numbers(batch.get("sampling_per_token_logps")),
                ),
                np.full(count, np.nan),
                np.full(sampled.ids_BT.shape, np.nan),
            )
        )
        self._count += count

    def replaced(self, sampled: Sampled) -> None:
        """Keep completions that no loss reads."""
        self.store.add(sampled)

    def learned(self, batch: Mapping[str, Any], logps_BT: Tensor) -> None:
        """Note a micro-batch's advantages at its first loss, and the sampling policy's logps.

        `logps_BT` are the policy's now, which sampled the batch where it carries no older ones.
        """
        if KEPT_IDS not in batch:
            return
        numbers_B = batch[KEPT_IDS].cpu().numpy()
        advantages = _numbers(batch["advantages"])
        assert advantages is not None
        if advantages.ndim == 2:
            mask_BT = batch["completion_mask"].cpu().numpy().astype(bool)
            with np.errstate(invalid="ignore"):
                advantages = (advantages * mask_BT).sum(axis=1) / mask_BT.sum(axis=1)
        logps = _numbers(batch.get("old_per_token_logps", logps_BT))
        assert logps is not None
        for waiting in self._waiting:
            places_B = numbers_B - waiting.first
            # only at its first loss: in later passes the policy isn't the one that sampled
            new_B = (places_B >= 0) & (places_B < len(waiting.advantage_B))
            new_B[new_B] = np.isnan(waiting.advantage_B[places_B[new_B]])
            waiting.advantage_B[places_B[new_B]] = advantages[new_B]
            width = min(logps.shape[1], waiting.policy_logps_BT.shape[1])
            waiting.policy_logps_BT[places_B[new_B], :width] = logps[new_B, :width]

    def pass_on(self) -> None:
        """Hand over what the last generation batch sampled: its losses are done."""
        for waiting in self._waiting:
            completed = replace(
                waiting.sampled,
                advantage_B=waiting.advantage_B,
                policy_logps_BT=waiting.policy_logps_BT,
            )
            self.store.add(completed)
        self._waiting = []

    def seal(self) -> None:
        """Have everything on the disk. Raises StoreError."""
        self.pass_on()
        self.store.seal()


def padded(ids: Sequence[Sequence[int]]) -> np.ndarray:
    """Return token ids (B, T), padded with 0 on the right."""
    ids_BT = np.zeros((len(ids), max(map(len, ids), default=0)), dtype=np.int32)
    for row_T, row in zip(ids_BT, ids, strict=True):
        row_T[: len(row)] = row
    return ids_BT


def _numbers(values: Tensor | None) -> np.ndarray | None:
    """Return the values in single precision."""
    if values is None:
        return None
    numbers: np.ndarray = values.detach().float().cpu().numpy()
    return numbers


Rewards = Mapping[str, float | None]
"""What rewards say of a completion by name; None where one says nothing."""
COMPLETION_IDS, COMPLETION_TEXTS = 1, 3
"""Where TRL's `_generate` returns the completions' tokens, and their texts."""


def lengths_of(sampled: Generated) -> list[int]:
    """Return the number of tokens of each completion."""
    return [len(ids) for ids in sampled[COMPLETION_IDS]]


class Noted:
    """Notes the completions of this process; `problems` are the ids of the data set's rows.

    `generated` is what was generated last. Counts go to the ledger, and where there is `kept` every
    completion is kept, too.
    """

    def __init__(
        self,
        problems: Sequence[str],
        reward: GradeReward,
        ledger: TrainingLedger,
        kept: Kept | None = None,
    ) -> None:
        self.problems, self.reward, self.ledger, self.kept = problems, reward, ledger, kept
        self.generated: Generated = ()
        self._step = 0
        self._rows: list[PromptRow] = []

    def begin(self, step: int) -> None:
        """Hear that a generation batch begins, which `step` is the first to train on."""
        self._step = step
        if self.kept is not None:
            self.kept.pass_on()

    def scored(
        self,
        rows: Sequence[Row],
        batch: dict[str, Any],
        rewards_BF: Tensor,
        rewards: Sequence[Rewards] = (),
    ) -> None:
        """Note the completions that were generated and graded last: they are trained on.

        `rewards` is what the rewards say of each by name, empty without graded rewards.
        """
        sampled = self._sampled(rows, self.generated, self.reward.statuses, rewards, trained=True)
        if self.kept is not None:
            own_BF = rewards_BF[batch["row_ids_B"]].float().cpu().numpy()
            self.kept.scored(batch, replace(sampled, rewards_BF=own_BF))

    def replaced(self, rows: Sequence[Row], sampled: Generated, places: Sequence[int]) -> None:
        """Note the completions at `places`, which are not trained on."""
        chosen, some = _some(rows, sampled, places)
        statuses = self.reward.grade([row["gold"] for row in chosen], some[COMPLETION_TEXTS])
        away = self._sampled(chosen, some, statuses, trained=False)
        if self.kept is not None and chosen:
            self.kept.replaced(away)

    def learned(self, batch: Mapping[str, Any], logps_BT: Tensor) -> None:
        """Hear of the loss of a micro-batch."""
        if self.kept is not None:
            self.kept.learned(batch, logps_BT)

    def enter(self, *, main: bool) -> None:
        """Enter the counts of all processes into the ledger, which the main process writes."""
        noted, self._rows = gather_object(self._rows), []
        if main:
            self.ledger.add(self._step, merged(noted))

    def seal(self) -> None:
        """Have everything on the disk, before a checkpoint is. Raises StoreError."""
        self.ledger.seal()
        if self.kept is not None:
            self.kept.seal()

    def _sampled(
        self,
        rows: Sequence[Row],
        sampled: Generated,
        statuses: Sequence[str],
        rewards: Sequence[Rewards] = (),
        *,
        trained: bool,
    ) -> Sampled:
        problems, lengths = [self.problems[row["row"]] for row in rows], lengths_of(sampled)
        self._rows += [
            PromptRow(
                problem,
                n=1,
                **{name: int(status == name) for name in STATUSES},
                tokens=length,
                right_tokens=length if status == "right" else 0,
                trained=trained,
                rewards={name: [value] for name, value in by_name.items() if value is not None},
            )
            for problem, status, length, by_name in zip(
                problems, statuses, lengths, rewards or [{}] * len(rows), strict=True
            )
        ]
        ids_BT = padded(sampled[COMPLETION_IDS]) if self.kept is not None else np.zeros((0, 0))
        return Sampled(
            self._step,
            problems,
            [row["prompt"] for row in rows],
            [row["gold"] for row in rows],
            sampled[COMPLETION_TEXTS],
            statuses,
            trained,
            np.array(lengths, dtype=int),
            ids_BT,
        )


def _some(
    rows: Sequence[Row], sampled: Generated, places: Iterable[int]
) -> tuple[list[Row], Generated]:
    """Return the rows at `places`, and the tokens and texts of their completions."""
    places = list(places)
    some = tuple(
        [values[i] for i in places] if which in (COMPLETION_IDS, COMPLETION_TEXTS) else []
        for which, values in enumerate(sampled)
    )
    return [rows[i] for i in places], some


def merged(rows: Iterable[PromptRow]) -> list[PromptRow]:
    """Return one row for each problem that was trained on, and one for each that was not.

    They are sorted, so that the number of processes that sampled them doesn't show.
    """
    counts: defaultdict[tuple[bool, str], Counter[str]] = defaultdict(Counter)
    rewards: defaultdict[tuple[bool, str], defaultdict[str, list[float]]]
    rewards = defaultdict(lambda: defaultdict(list))
    for row in rows:
        counted = row._asdict()
        key = (counted.pop("trained"), counted.pop("problem"))
        for name, values in counted.pop("rewards").items():
            rewards[key][name] += values
        counts[key].update(counted)
    return [
        PromptRow(problem, **tally, trained=trained, rewards=rewards.get((trained, problem), {}))
        for (trained, problem), tally in sorted(counts.items())
    ]
