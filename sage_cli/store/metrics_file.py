"""metrics.jsonl, one JSON object per optimiser step: the authoritative record of a training.

rollouts.jsonl beside it has the same form: some completions of some steps, each a record.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from sage_cli.json_value import json_value
from sage_cli.store.atomic import storing, write_text
from sage_cli.store.lease import Lease

SHOWN = 5
"""How many torn lines are named by their numbers."""

log = logging.getLogger(__name__)


class MetricsFile:
    """Append-only but for `rewind`, which a resumed training calls so that no step is doubled."""

    def __init__(
        self, path: Path, needs: Mapping[str, type] | None = None, lease: Lease | None = None
    ) -> None:
        """`needs` are the keys, with the types of their values, without which a line is torn.

        `lease` is that of the run, which every record requires.
        """
        self.path, self._needs, self._lease = path, needs or {}, lease

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record as one line and flush it.

        Raises StoreError if that fails, or if another process has taken the run over.
        """
        if self._lease is not None:
            self._lease.require()
        with storing(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(record, allow_nan=True) + "\n")

    def read(self) -> list[dict[str, Any]]:
        """All whole records in order. Lines that are torn are left out, and named once.

        A torn last line without an end isn't named: it is being written, or was when the writer
        was killed, and the resumed training writes it again.
        """
        records = list(map(self._record, self._lines()))
        torn = [number for number, record in enumerate(records[:-1], start=1) if record is None]
        if torn:
            _name_torn(self.path, tuple(torn))
        return [record for record in records if record is not None]

    def last(self, step: int) -> list[dict[str, Any]]:
        """The records of `step`, which was written last; none where it wrote none."""
        whole = filter(None, map(self._record, reversed(self._lines())))
        return list(takewhile(lambda record: record["step"] == step, whole))[::-1]

    def rewind(self, step: int) -> None:
        """Forget every record after optimiser step `step` (0 forgets all).

        Where nothing is to be forgotten the file stays the same one, for whoever follows it.
        """
        if self.path.is_file():
            kept = [record for record in self.read() if record["step"] <= step]
            text = "".join(json.dumps(record) + "\n" for record in kept)
            if text.encode() != self.path.read_bytes():
                write_text(self.path, text)

    def _lines(self) -> list[bytes]:
        """The lines, and what comes after the last one's end; none where there is no file."""
        try:
            return self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return []

    def _record(self, line: bytes) -> dict[str, Any] | None:
        """One line; None where it is no JSON object with what a record needs."""
        try:
            record = json_value(line)
        except ValueError:
            return None
        if not isinstance(record, dict):
            return None
        whole = all(isinstance(record.get(key), kind) for key, kind in self._needs.items())
        return record if whole else None


@cache
def _name_torn(path: Path, torn: tuple[int, ...]) -> None:
    """Warn, once, of lines that can't be read."""
    numbers = ", ".join(map(str, torn[:SHOWN])) + (", ..." if len(torn) > SHOWN else "")
    lines = f"lines {numbers} are" if len(torn) > 1 else f"line {numbers} is"
    log.warning("%s is torn or was edited: %s left out", path, lines)
