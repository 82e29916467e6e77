"""Says when the reward of an RL training is 0 from the start or collapses, and where to look."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

from sage_cli.grading.grades import STATUSES

WINDOW = 10
"""Steps that are looked at together."""
COLLAPSE = 0.25
"""A window's mean reward below this share of the best window's is a collapse."""
RECOVERY = 0.5
"""From this share of the best window's on it may be said again."""
WORTH = 0.05
"""The best window's mean reward below which a fall is taken for chance."""
MANY = 0.5
"""The share of completions from which on a cause is taken for the cause."""


class RewardWatch:
    """Checks a training's records in order, and warns once until the reward has recovered.

    `earlier` are the records that the run has already: what they gave reason to say was said.
    """

    def __init__(self, earlier: Iterable[Mapping[str, Any]] = ()) -> None:
        self._window: deque[Mapping[str, Any]] = deque(maxlen=WINDOW)
        self._best = 0.0
        self._warned = False
        for record in earlier:
            self.check(record)

    def check(self, record: Mapping[str, Any]) -> str | None:
        """The warning after this step, a sentence with figures and advice; None without one."""
        unpaid = "reward/total" in record and "reward/grade" not in record
        if "reward" not in record or unpaid:
            return None
        self._window.append(record)
        if len(self._window) < WINDOW:
            return None
        mean = _mean(self._window, "reward")
        self._best = max(self._best, mean)
        fell = self._best >= WORTH and mean < COLLAPSE * self._best
        if mean > 0 and not fell:
            self._warned = self._warned and mean < RECOVERY * self._best
            return None
        warned, self._warned = self._warned, True
        before = f", after {self._best:.2f}" if fell else ""
        what = f"the mean reward of the last {WINDOW} steps is {mean:.2g}{before}"
        return None if warned else f"{what}: {_figures(self._window)}; {_advice(self._window)}"


def _figures(records: Iterable[Mapping[str, Any]]) -> str:
    """Shares of what keeps a completion from its reward, or a group from its use."""
    return (
        f"{_unparseable(records):.0%} of the completions can't be parsed, "
        f"{_mean(records, 'completions/clipped'):.0%} are cut off at the length limit, "
        f"{_mean(records, 'groups/zero_variance'):.0%} of the groups have equal rewards"
    )


def _advice(records: Iterable[Mapping[str, Any]]) -> str:
    """Return what to check first: the commonest of the earliest causes."""
    if _mean(records, "completions/clipped") >= MANY:
        return "look at rollouts.jsonl, raise rollout.max_tokens, or check that answers end"
    if _unparseable(records) >= MANY:
        return "look at rollouts.jsonl: do answers have the form that prompt.* asks for?"
    return (
        "look at rollouts.jsonl and measure the start with `sage passk`: easier problems, more "
        "rollouts per prompt, a lower rl.learning_rate or a higher anchor.beta may help"
    )


def _unparseable(records: Iterable[Mapping[str, Any]]) -> float:
    counts = [[record.get(f"grade/{status}", 0) for status in STATUSES] for record in records]
    total = sum(map(sum, counts))
    return sum(row[STATUSES.index("unparseable")] for row in counts) / total if total else 0.0


def _mean(records: Iterable[Mapping[str, Any]], key: str) -> float:
    values = [float(record.get(key, 0.0)) for record in records]
    return sum(values) / len(values)
