"""metrics.jsonl, one JSON object per optimiser step: the authoritative record of a training.

rollouts.jsonl beside it has the same form: some completions of some steps, each a record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from sage_cli.errors import StoreError
from sage_cli.store.atomic import storing, write_text
from sage_cli.store.lock import require_held


class MetricsFile:
    """Append-only but for `rewind`, which a resumed training calls so that no step is doubled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record as one line and flush it.

        Raises StoreError where that can't be done, and where another process has taken the run
        over from this one.
        """
        require_held(self.path.parent)
        with storing(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(record, allow_nan=True) + "\n")

    def read(self) -> list[dict[str, Any]]:
        """All whole records in order; a last line torn by a crash is left out.

        Raises StoreError when a line before the last can't be read.
        """
        if not self.path.is_file():
            return []
        lines = self.path.read_text(encoding="utf-8").splitlines()
        records = []
        for number, line in enumerate(lines, start=1):
            try:
                records.append(_record(line))
            except ValueError:
                if number < len(lines):
                    raise StoreError(
                        f"line {number} of {self.path} is torn or was edited",
                        "restore it, or train the run again with --fresh",
                    ) from None
        return records

    def last(self, step: int) -> list[dict[str, Any]]:
        """The records of `step`, which was written last; none where it wrote none."""
        if not self.path.is_file():
            return []
        lines = reversed(self.path.read_text(encoding="utf-8").splitlines())
        found = takewhile(lambda record: record["step"] == step, map(json.loads, lines))
        return list(found)[::-1]

    def rewind(self, step: int) -> None:
        """Forget every record after optimiser step `step` (0 forgets all).

        Where nothing is to be forgotten the file stays the same one, for whoever follows it.
        """
        if self.path.is_file():
            kept = [record for record in self.read() if record["step"] <= step]
            text = "".join(json.dumps(record) + "\n" for record in kept)
            if text != self.path.read_text(encoding="utf-8"):
                write_text(self.path, text)


def _record(line: str) -> dict[str, Any]:
    """One line. Raises ValueError where it is no JSON object."""
    record = json.loads(line)
    if not isinstance(record, dict):
        raise ValueError("not an object")
    return record
