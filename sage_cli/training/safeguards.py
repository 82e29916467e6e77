"""Warnings about a training run that learns nothing, which end in stopping it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from sage_cli.errors import DivergedError
from sage_cli.grading.grades import STATUSES

STUCK_SHARE = 0.95
STOP_AFTER_STEPS = 20
UNREADABLE = "grade/unparseable"
_WATCHED_SHARES = {
    "completions/clipped": (
        "completions were cut off at the length limit",
        "raise rollout.max_tokens, or check that the initial policy ends its answers",
    ),
    "groups/zero_variance": (
        "groups had equal rewards, so they gave no learning signal",
        "use easier or harder problems, or more rollouts per prompt (rl.rollouts_per_prompt)",
    ),
    UNREADABLE: (
        "completions had no readable answer",
        "see `sage samples show RUN --training`, and compare the texts with prompt.format",
    ),
}


class Safeguards:
    """Watches the records of one training.

    A warning at the first of some steps in a row with at least 95% clipped or unreadable
    completions or groups of equal rewards, since a step may take minutes; a stop after 20 of them.
    A stop at once when loss or gradient norm isn't finite. With `stop=False` only warnings. The
    records of `earlier` sessions are counted without complaint.
    """

    def __init__(self, *, stop: bool, earlier: Iterable[Mapping[str, Any]] = ()) -> None:
        self.stop = stop
        self._stuck_steps = dict.fromkeys(_WATCHED_SHARES, 0)
        for record in earlier:
            self.count(record)

    def count(self, record: Mapping[str, Any]) -> None:
        """Count a step, without complaint."""
        # the record counts completions without a readable answer; watched is their share
        graded = sum(record.get(f"grade/{status}", 0) for status in STATUSES)
        shares = {**record, UNREADABLE: record.get(UNREADABLE, 0) / graded if graded else 0.0}
        for key in _WATCHED_SHARES:
            stuck = shares.get(key, 0.0) >= STUCK_SHARE
            self._stuck_steps[key] = self._stuck_steps[key] + 1 if stuck else 0

    def check(self, record: Mapping[str, Any]) -> None:
        """Count a step; warn or raise DivergedError where going on is pointless."""
        self.count(record)
        for key in ("loss", "grad_norm"):
            if not math.isfinite(record[key]):
                self._complain(
                    f"{key} is {record[key]} at step {record['step']}",
                    "lower rl.learning_rate or rl.max_grad_norm; `runs` keeps the last checkpoint",
                    final=True,
                )
        for key, (problem, advice) in _WATCHED_SHARES.items():
            steps = self._stuck_steps[key]
            if steps == 1:
                cause = f"at step {record['step']} at least {STUCK_SHARE:.0%} of the {problem}"
                self._complain(cause, advice, final=False)
            elif steps == STOP_AFTER_STEPS and key != UNREADABLE:
                cause = f"for {steps} steps at least {STUCK_SHARE:.0%} of the {problem}"
                self._complain(cause, advice, final=True)

    def _complain(self, cause: str, advice: str, *, final: bool) -> None:
        if final and self.stop:
            raise DivergedError(cause, f"{advice}; rl.stop_when_stuck=false trains on regardless")
        warnings.warn(f"{cause}: {advice}", stacklevel=2)
