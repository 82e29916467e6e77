"""Completions of a training on their way into its ledger, and where all are kept into files."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from accelerate.utils import gather_object
from torch import Tensor

from sage_cli.grading.grades import STATUSES
from sage_cli.methods.hooks import Generated, GradeReward, Row
from sage_cli.store.ledger import PromptRow, Sampled, TrainingCompletions, TrainingLedger

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
        kept: TrainingCompletions | None = None,
    ) -> None:
        self.problems, self.reward, self.ledger, self.kept = problems, reward, ledger, kept
        self.generated: Generated = ()
        self._step = 0
        self._rows: list[PromptRow] = []

    def begin(self, step: int) -> None:
        """Hear that a generation batch begins, which `step` is the first to train on."""
        self._step = step

    def scored(
        self,
        rows: Sequence[Row],
        batch: dict[str, Any],
        rewards_BF: Tensor,
    ) -> None:
        """Note the completions that were generated and graded last: they are trained on."""
        sampled = self._sampled(rows, self.generated, self.reward.statuses, trained=True)
        if self.kept is not None:
            own_BF = rewards_BF[batch["row_ids_B"]].float().cpu().numpy()
            self.kept.add(replace(sampled, rewards=own_BF.tolist()))

    def replaced(self, rows: Sequence[Row], sampled: Generated, places: Sequence[int]) -> None:
        """Note the completions at `places`, which are not trained on."""
        chosen, some = _some(rows, sampled, places)
        statuses = self.reward.grade([row["gold"] for row in chosen], some[COMPLETION_TEXTS])
        away = self._sampled(chosen, some, statuses, trained=False)
        if self.kept is not None and chosen:
            self.kept.add(away)

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
            )
            for problem, status, length in zip(problems, statuses, lengths, strict=True)
        ]
        return Sampled(
            self._step,
            problems,
            [row["prompt"] for row in rows],
            [row["gold"] for row in rows],
            sampled[COMPLETION_TEXTS],
            statuses,
            trained,
            sampled[COMPLETION_IDS],
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
    for row in rows:
        counted = row._asdict()
        key = (counted.pop("trained"), counted.pop("problem"))
        counts[key].update(counted)
    return [
        PromptRow(problem, **tally, trained=trained)
        for (trained, problem), tally in sorted(counts.items())
    ]
