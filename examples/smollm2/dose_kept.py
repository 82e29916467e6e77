"""What is kept of the study smollm2-dose: counts by problem, and a line for each unit."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

STUDY = "smollm2-dose"
SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("suite", "unit", "method", "policy", "benchmark", "problem")]
    + [("temperature", pa.float64())]
    + [(name, pa.int32()) for name in ("seed", "evaluation_seed", "n", "c")]
)


@dataclass(frozen=True)
class Kept:
    """The two files of a folder. A unit's line vouches for its counts, so it is written last."""

    folder: Path

    @property
    def units(self) -> Path:
        """A line for each unit: what it was made with, and figures of its steps."""
        return self.folder / f"{STUDY}.units.jsonl"

    @property
    def counts(self) -> Path:
        """Samples and right ones of each problem, by unit and judge."""
        return self.folder / f"{STUDY}.counts.parquet"

    def lines(self) -> list[dict[str, Any]]:
        """Return the units' lines in the order in which they were written."""
        if not self.units.is_file():
            return []
        return [json.loads(line) for line in self.units.read_text(encoding="utf-8").splitlines()]

    def keep_line(self, line: dict[str, Any]) -> None:
        """Write a unit's line last, and not again an earlier one of the same weights.

        A unit that was begun on another machine keeps that machine's line.
        """
        own = (line["unit"], line["made_with"])
        with self._alone():
            others = [one for one in self.lines() if (one["unit"], one["made_with"]) != own]
            texts = [json.dumps(one, separators=(",", ":")) + "\n" for one in [*others, line]]
            replace_text(self.units, "".join(texts))

    def keep_counts(self, rows: list[dict[str, Any]]) -> None:
        """Write counts, in the place of those that the same unit has of the same policy."""
        own = {(row["unit"], row["policy"]) for row in rows}
        with self._alone():
            old = pq.read_table(self.counts).to_pylist() if self.counts.is_file() else []
            others = [row for row in old if (row["unit"], row["policy"]) not in own]
            part = self.counts.with_suffix(".part")
            pq.write_table(pa.Table.from_pylist([*others, *rows], SCHEMA), part, compression="zstd")
            part.rename(self.counts)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let no other process write: the pilot and `--part initial` may run at the same time."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)

    def shares(self, unit: str) -> dict[str, float]:
        """Return the share of right answers by problem that a unit's first policy has."""
        if not self.counts.is_file():
            return {}
        rows = pq.read_table(self.counts, filters=[("unit", "=", unit)]).to_pylist()
        first = {(row["policy"], row["benchmark"]) for row in rows[:1]}
        return {
            row["problem"]: row["c"] / row["n"]
            for row in rows
            if (row["policy"], row["benchmark"]) in first
        }


def replace_text(file: Path, text: str) -> None:
    """Write a text file as a whole."""
    part = file.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.rename(file)
