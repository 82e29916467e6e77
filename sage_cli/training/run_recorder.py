"""Write what a run samples, and a record of each step."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from accelerate.utils import gather_object
from torch import Tensor

from sage_cli.grading.grades import STATUSES
from sage_cli.methods.hooks import Generated, GradeReward, Rollouts, Row
from sage_cli.settings.tracking import TrackingSection
from sage_cli.store.ledger import PromptRow, Sampled, TrainingCompletions, TrainingLedger
from sage_cli.store.run import Run
from sage_cli.training.watch import OnStep


def batch_record(status_PN: Tensor, length_B: Tensor, clipped_B: Tensor) -> dict[str, Any]:
    """Return statistics of all processes' grades, indices into STATUSES one row per prompt.

    `reward` is the share of correct answers; a group has zero variance when its grades agree.
    """
    right_PN = (status_PN == STATUSES.index("right")).float()
    p_P = right_PN.mean(dim=1)
    return {
        "reward": right_PN.mean().item(),
        **{
            f"grade/{status}": int((status_PN == index).sum())
            for index, status in enumerate(STATUSES)
        },
        "groups/zero_variance": ((p_P == 0) | (p_P == 1)).float().mean().item(),
        "completions/length": length_B.float().mean().item(),
        "completions/clipped": clipped_B.float().mean().item(),
    }


def rollout_rows(now: Rollouts, group: int, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the first completion of every prompt, where each prompt has `group` of them in a row.

    `reward` is the sum over the reward functions F, as the advantage is computed from. With their
    `names` each row also has what they say of the completion, None for one that says nothing.
    """
    rows_B = now.batch["row_ids_B"]
    rewards = now.rewards_BF[rows_B].sum(dim=1).tolist()
    raw = now.raw_BF[rows_B].tolist() if names else []
    shown = []
    for place in range(0, len(now.rows), group):
        row = {
            "prompt": now.rows[place]["prompt"],
            "completion": now.texts[place],
            "gold": now.rows[place]["gold"],
            "grade": now.statuses[place],
            "reward": rewards[place],
        }
        if names:
            by_name = zip(names, raw[place], strict=True)
            row["rewards"] = {name: None if math.isnan(value) else value for name, value in by_name}
        shown.append(row)
    return shown


COMPLETION_IDS, COMPLETION_TEXTS = 1, 3
"""Where TRL's `_generate` returns the completions' tokens, and their texts."""


@dataclass
class RunRecorder:
    """Writes to `run` what this process samples, and each step's record with some rollouts.

    `problems` are the ids of the data set's rows. Counts go to the `ledger`, and with `kept` every
    completion is stored, too. The `step` of a generation batch is the first optimiser step that
    trains on it.
    """

    run: Run
    ledger: TrainingLedger
    tracking: TrackingSection
    problems: Sequence[str]
    reward: GradeReward
    on_step: OnStep
    kept: TrainingCompletions | None = None
    _rows: list[PromptRow] = field(default_factory=list)

    def record(
        self,
        step: int,
        rows: Sequence[Row],
        ids: Sequence[Sequence[int]],
        texts: Sequence[str],
        statuses: Sequence[str],
        rewards_BF: Tensor | None = None,
    ) -> None:
        """Record completions that were graded; those without rewards are not trained on."""
        problems, trained = [self.problems[row["row"]] for row in rows], rewards_BF is not None
        for problem, status, tokens in zip(problems, statuses, map(len, ids), strict=True):
            counts = {name: int(status == name) for name in STATUSES}
            right_tokens = tokens * counts["right"]
            self._rows.append(
                PromptRow(
                    problem,
                    n=1,
                    **counts,
                    tokens=tokens,
                    right_tokens=right_tokens,
                    trained=trained,
                )
            )
        if self.kept is not None and problems:
            prompts, golds = [row["prompt"] for row in rows], [row["gold"] for row in rows]
            rewards = None if rewards_BF is None else rewards_BF.float().cpu().numpy().tolist()
            self.kept.add(
                Sampled(step, problems, prompts, golds, texts, statuses, trained, ids, rewards)
            )

    def record_replaced(
        self, step: int, rows: Sequence[Row], sampled: Generated, places: Sequence[int]
    ) -> None:
        """Record the completions at `places`, which are not trained on."""
        chosen = [rows[place] for place in places]
        ids, texts = (
            [sampled[which][place] for place in places]
            for which in (COMPLETION_IDS, COMPLETION_TEXTS)
        )
        statuses = self.reward.grade([row["gold"] for row in chosen], texts)
        self.record(step, chosen, ids, texts, statuses)

    def write_counts(self, step: int, *, main: bool) -> None:
        """Add the counts of all processes to the ledger, which the main process writes.

        A problem has one row for what was trained on, and one for what was not. They are sorted, so
        that the number of processes that sampled them doesn't show.
        """
        recorded, self._rows = gather_object(self._rows), []
        counts: defaultdict[tuple[bool, str], Counter[str]] = defaultdict(Counter)
        for row in recorded:
            counted = row._asdict()
            key = (counted.pop("trained"), counted.pop("problem"))
            counts[key].update(counted)
        if main:
            merged = [
                PromptRow(problem, **tally, trained=trained)
                for (trained, problem), tally in sorted(counts.items())
            ]
            self.ledger.add(step, merged)

    def write_step(self, record: Mapping[str, Any], rollouts: Sequence[Mapping[str, Any]]) -> None:
        """Write a step's record, and some rollouts of every `tracking.rollouts_every` steps.

        Called in the main process alone.
        """
        if (record["step"] - 1) % self.tracking.rollouts_every == 0:
            shown_rows = self.tracking.rollouts
            for row in rollouts if shown_rows == "all" else rollouts[:shown_rows]:
                self.run.rollouts.append({"step": record["step"], **row})
        self.run.metrics.append(record)  # last: who finds the step here finds its rollouts there
        self.on_step(record)

    def seal(self) -> None:
        """Flush what was sampled to disk before a checkpoint is written. Raises StoreError."""
        self.ledger.seal()
        if self.kept is not None:
            self.kept.seal()
