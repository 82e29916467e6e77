"""What a training notes of the completions it samples: counts by problem, for the ledger."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from accelerate.utils import gather_object

from sage_cli.grading.grades import STATUSES
from sage_cli.methods.parts.dynamic_sampling import Generated, Row
from sage_cli.methods.parts.hooks import GradeReward
from sage_cli.store.runs.training_ledger import PromptRow

COMPLETION_IDS, COMPLETION_TEXTS = 1, 3
"""Where TRL's `_generate` returns the completions' tokens, and their texts."""


def lengths_of(sampled: Generated) -> list[int]:
    """Return the number of tokens of each completion."""
    return [len(ids) for ids in sampled[COMPLETION_IDS]]


class Noted:
    """Notes the completions of this process; `problems` are the ids of the data set's rows.

    `lengths` are the numbers of tokens of what was generated last.
    """

    def __init__(self, problems: Sequence[str], reward: GradeReward) -> None:
        self.problems, self.reward = problems, reward
        self.lengths: list[int] = []
        self._rows: list[PromptRow] = []

    def scored(self, rows: Sequence[Row]) -> None:
        """Note the completions that were generated and graded last: they are trained on."""
        self._note(rows, self.reward.statuses, self.lengths, trained=True)

    def replaced(self, rows: Sequence[Row], sampled: Generated, places: Sequence[int]) -> None:
        """Note the completions at `places`, which are not trained on."""
        chosen, lengths = [rows[i] for i in places], lengths_of(sampled)
        texts = [sampled[COMPLETION_TEXTS][i] for i in places]
        statuses = self.reward.grade([row["gold"] for row in chosen], texts)
        self._note(chosen, statuses, [lengths[i] for i in places], trained=False)

    def of_all_processes(self) -> list[PromptRow]:
        """Return what all processes noted since the last call, by problem."""
        noted, self._rows = gather_object(self._rows), []
        return merged(noted)

    def _note(
        self, rows: Sequence[Row], statuses: Sequence[str], lengths: Sequence[int], *, trained: bool
    ) -> None:
        self._rows += [
            PromptRow(
                self.problems[row["row"]],
                n=1,
                **{known: int(status == known) for known in STATUSES},
                tokens=length,
                right_tokens=length if status == "right" else 0,
                trained=trained,
            )
            for row, status, length in zip(rows, statuses, lengths, strict=True)
        ]


def merged(rows: Iterable[PromptRow]) -> list[PromptRow]:
    """Return one row for each problem that was trained on, and one for each that was not.

    They are sorted, so that the number of processes that sampled them doesn't show.
    """
    found: dict[tuple[bool, str], Counter[str]] = {}
    for row in rows:
        counted = row._asdict()
        key = (counted.pop("trained"), counted.pop("problem"))
        found.setdefault(key, Counter()).update(counted)
    return [
        PromptRow(problem, **of, trained=trained)
        for (trained, problem), of in sorted(found.items())
    ]
