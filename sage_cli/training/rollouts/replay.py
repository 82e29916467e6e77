"""Replay: right completions that were sampled before, in the place of wrong ones of hard groups.

Their old log-probabilities are those of the policy that sampled them, so that the clipped ratio
pi / pi_old of the loss weighs each of their tokens.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from sage_cli.methods.parts.dynamic_sampling import Generated, Row
from sage_cli.settings.sections.rewards import ReplaySection

REPLAYED, OLD_LOGPS = "replayed_B", "replayed_logps_BT"
"""Where a batch says which rows are replayed, and their old log-probabilities."""


class Stored(NamedTuple):
    """A right completion, the step that sampled it, and its policy's log-probabilities then."""

    step: int
    ids: tuple[int, ...]
    text: str
    logps: tuple[float, ...]


class Memory:
    """The newest right completions of each problem, at most `most`, each text's tokens once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._of: defaultdict[str, list[Stored]] = defaultdict(list)

    def add(self, table: pa.Table, *, before: int = 0) -> None:
        """Remember the right ones with log-probabilities; their steps count from `before`."""
        names = ("step", "problem", "text", "grade", "ids", "policy_logps")
        for row in table.select(list(names)).to_pylist():
            if row["grade"] == "right" and row["policy_logps"] is not None:
                step, ids = row["step"] - before, tuple(row["ids"])
                self._remember(
                    row["problem"], Stored(step, ids, row["text"], tuple(row["policy_logps"]))
                )

    def newest(
        self, problem: str, count: int, since: float, without: frozenset[tuple[int, ...]]
    ) -> list[Stored]:
        """Return at most `count` completions of `problem`, sampled at step `since` or later.

        Those whose tokens are in `without` are left out.
        """
        fitting = [one for one in self._of[problem] if one.step >= since and one.ids not in without]
        return fitting[:count]

    def _remember(self, problem: str, new: Stored) -> None:
        """Keep the newest of equal tokens; the order doesn't depend on that of the calls."""
        by_ids = {one.ids: one for one in self._of[problem]}
        known = by_ids.get(new.ids)
        if known is None or known.step <= new.step:
            by_ids[new.ids] = new
        ordered = sorted(by_ids.values(), key=lambda one: (-one.step, one.ids))
        self._of[problem] = ordered[: self.most]


class Replay:
    """Replaces wrong completions of groups with few right ones; `problems` are the rows' ids.

    `record` has the figures of the generation batch at hand.
    """

    def __init__(self, section: ReplaySection, problems: Sequence[str], group: int) -> None:
        self.section, self.problems, self.group = section, problems, group
        self.memory = Memory(2 * group)  # more than a group takes, as some are its own again
        self.record: dict[str, float] = {}
        self._taken: dict[int, Stored] = {}

    def mix(
        self, rows: Sequence[Row], sampled: Generated, statuses: Sequence[str], step: int
    ) -> tuple[Generated, list[int]]:
        """Return the completions with replayed ones among them, and the places of these.

        `sampled` is in TRL's form: ids, texts and, if an engine gives them, log-probabilities are
        replaced. The engine's become unknown, for which TRL corrects nothing. `step` is the first
        that trains on the batch.
        """
        self._taken = self._choose(rows, sampled[1], statuses, step)
        ages = [step - one.step for one in self._taken.values()]
        self.record = {"replay/completions": len(ages)}
        if not ages:
            return sampled, []
        self.record["replay/age"] = sum(ages) / len(ages)
        mixed = list(sampled)
        for which, of in ((1, lambda one: list(one.ids)), (3, lambda one: one.text),
                          (4, lambda one: [None] * len(one.ids))):  # fmt: skip
            if mixed[which] is not None:
                values = list(mixed[which])
                for place, one in self._taken.items():
                    values[place] = of(one)
                mixed[which] = values
        return tuple(mixed), sorted(self._taken)

    def attach(self, batch: dict[str, Any]) -> None:
        """Give a scored batch the replayed rows' old log-probabilities."""
        taken, self._taken = self._taken, {}
        if not taken:
            return
        ids_BT = batch["completion_ids"]
        old_BT, replayed_B = torch.zeros(ids_BT.shape), torch.zeros(len(ids_BT), dtype=torch.bool)
        for place, one in taken.items():
            old_BT[place, : len(one.logps)] = torch.tensor(one.logps)
            replayed_B[place] = True
        batch[OLD_LOGPS], batch[REPLAYED] = old_BT.to(ids_BT.device), replayed_B.to(ids_BT.device)

    def _choose(
        self,
        rows: Sequence[Row],
        ids: Sequence[Sequence[int]],
        statuses: Sequence[str],
        step: int,
    ) -> dict[int, Stored]:
        """Return place -> what is replayed there: the last wrong ones of a group go first.

        One wrong completion stays: a group that is all right would teach nothing.
        """
        section, taken = self.section, dict[int, Stored]()
        since = -math.inf if section.max_age is None else step - section.max_age
        for first in range(0, len(rows), self.group):
            group = range(first, first + self.group)
            right = [place for place in group if statuses[place] == "right"]
            if len(right) > section.solved_at_most * self.group:
                continue
            own = frozenset(tuple(ids[place]) for place in right)
            wrong = [place for place in reversed(group) if statuses[place] != "right"]
            found = self.memory.newest(
                self.problems[rows[first]["row"]], section.most(self.group), since, own
            )
            taken |= dict(zip(wrong[:-1], found, strict=False))
        return taken


def old_logps(batch: Mapping[str, Any], logps_BT: Tensor) -> Tensor:
    """Return log pi_old (B, T): of replayed rows what was stored, else as the loss would have it.

    `logps_BT` are the policy's now, which sampled the batch where it carries no older ones.
    """
    own_BT = batch.get("old_per_token_logps", logps_BT)
    width = own_BT.shape[1]
    return torch.where(batch[REPLAYED][:, None], batch[OLD_LOGPS][:, :width].to(own_BT), own_BT)


def replay_statistics(signals: Mapping[str, Tensor]) -> dict[str, float]:
    """Return the importance ratios pi / pi_old of replayed tokens: mean and ends."""
    ratio_T = signals.get("replayed", torch.empty(0)).exp()
    if not len(ratio_T):
        return {}
    return {
        "replay/ratio_min": ratio_T.min().item(),
        "replay/ratio_mean": ratio_T.mean().item(),
        "replay/ratio_max": ratio_T.max().item(),
    }


def own_places(batch: Mapping[str, Any], count: int) -> np.ndarray:
    """Return the places of a batch's `count` rows that were sampled now."""
    replayed = batch.get(REPLAYED)
    return np.arange(count) if replayed is None else np.flatnonzero(~replayed.cpu().numpy())
