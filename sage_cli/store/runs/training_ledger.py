"""A run's `ledger/`: how each prompt of each step of RL was answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from sage_cli.store.arrow_tables import empty_table
from sage_cli.store.lease import Lease
from sage_cli.store.runs.step_files import StepFiles


class PromptRow(NamedTuple):
    """The completions of a problem that one generation batch sampled.

    `n` of them were sampled; the next five count them by grade. `tokens` is the sum of their
    lengths, `right_tokens` that of the right ones. `trained`: they were in the batch that was
    trained on, and not replaced by other prompts. `rewards` are by name what each reward says of
    those completions of which it says something.
    """

    problem: str
    n: int
    right: int
    wrong: int
    unparseable: int
    timeout: int
    error: int
    tokens: int
    right_tokens: int
    trained: bool
    rewards: Mapping[str, Sequence[float]] = {}


COUNTED = PromptRow._fields[:-1]
"""The columns besides the step and the rewards."""
_TYPES = {"problem": pa.string(), "trained": pa.bool_()}
SCHEMA = pa.schema(
    [("step", pa.int32()), *((name, _TYPES.get(name, pa.int32())) for name in COUNTED)]
)
REWARD = "reward/"
"""How the columns of rewards begin: `reward/NAME` is the mean over the completions of which the
reward says something, null where it says nothing of any; `reward/NAME/n` counts them."""
COUNT = "/n"


def reward_columns(names: Iterable[str]) -> pa.Schema:
    """Return the two columns of each reward."""
    each = ((f"{REWARD}{name}", f"{REWARD}{name}{COUNT}") for name in names)
    return pa.schema(
        [field for mean, n in each for field in ((mean, pa.float64()), (n, pa.int32()))]
    )


def rewards_in(table: pa.Table) -> list[str]:
    """Return the names of the rewards that a ledger has columns of."""
    known = set(table.schema.names)
    means = [name for name in table.schema.names if f"{name}{COUNT}" in known]
    return [name.removeprefix(REWARD) for name in means]


class TrainingLedger(StepFiles):
    """Rows of a training; those since the last checkpoint are in memory.

    New files have columns of `rewards`; earlier ones may lack them.
    """

    def __init__(
        self, folder: Path, lease: Lease | None = None, rewards: Sequence[str] = ()
    ) -> None:
        super().__init__(folder, SCHEMA, lease)
        self._rewards = rewards
        self._waiting: list[tuple[int, PromptRow]] = []

    def with_rewards(self, names: Sequence[str]) -> TrainingLedger:
        """Return the ledger whose new files have columns of these rewards."""
        return TrainingLedger(self.folder, self._lease, names)

    def add(self, step: int, rows: Iterable[PromptRow]) -> None:
        """Keep the rows of the generation batch that `step` is the first to train on."""
        self._waiting += [(step, row) for row in rows]

    def seal(self) -> None:
        """Write what was added since the last call. Raises StoreError."""
        if self._waiting:
            schema = pa.unify_schemas([SCHEMA, reward_columns(self._rewards)])
            rows = [{"step": step, **self._columns(row)} for step, row in self._waiting]
            self.write(pa.Table.from_pylist(rows, schema=schema))
            self._waiting = []

    def _columns(self, row: PromptRow) -> dict[str, object]:
        found = row._asdict()
        said = found.pop("rewards")
        for name in self._rewards:
            values = said.get(name, ())
            found[f"{REWARD}{name}"] = fsum(values) / len(values) if values else None
            found[f"{REWARD}{name}{COUNT}"] = len(values)
        return found

    def _has_layout(self, schema: pa.Schema) -> bool:
        table = empty_table(schema)
        ours = pa.unify_schemas([SCHEMA, reward_columns(rewards_in(table))])
        return bool(schema.equals(ours))
