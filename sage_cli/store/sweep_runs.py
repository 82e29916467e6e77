"""The runs of a sweep, by point and training seed."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sage_cli.json_value import json_value
from sage_cli.settings.former_names import today_key
from sage_cli.store.files import storing, write_text
from sage_cli.store.json_files import with_checksum, without_checksum

log = logging.getLogger(__name__)
_NAME = "runs.jsonl"
"""The file in a sweep's folder."""
FactValue = float | int | str | bool


@dataclass(frozen=True)
class SweepEntry:
    """The values of a `point` by setting, the number of its training (from 0), and the run's id."""

    point: Mapping[str, FactValue]
    seed: int
    run: str


class SweepRuns:
    """The append-only `runs.jsonl` of a sweep.

    A killed driver or a full disk tears one line, which is left out.
    """

    def __init__(self, sweep: Path) -> None:
        """`sweep` is the sweep's folder, which need not exist."""
        self.path = sweep / _NAME

    def entries(self) -> list[SweepEntry]:
        """Return all whole lines in order."""
        return [entry for entry in map(_entry, self._lines()) if entry is not None]

    def append(self, entry: SweepEntry) -> None:
        """Write one line. Raises StoreError if that fails."""
        line = json.dumps(with_checksum(asdict(entry))).encode() + b"\n"
        with storing(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                file.write(line if self._ends_whole() else b"\n" + line)

    def repair(self) -> None:
        """Remove corrupt lines with a warning. Only the process that may write calls this."""
        lines = self._lines()
        whole = [line for line in lines if _entry(line) is not None]
        if len(whole) < len(lines):
            with storing(self.path.parent):
                write_text(self.path, "".join(f"{line.decode()}\n" for line in whole))
            corrupt = len(lines) - len(whole)
            log.warning("%s had %d unreadable lines, which were removed", self.path, corrupt)

    def _lines(self) -> list[bytes]:
        return self.path.read_bytes().splitlines() if self.path.is_file() else []

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            if not file.seek(0, os.SEEK_END):
                return True
            file.seek(-1, os.SEEK_END)
            return file.read() == b"\n"


def _entry(line: bytes) -> SweepEntry | None:
    try:
        content = without_checksum(json_value(line))
        entry = SweepEntry(**content)
        point = {today_key(key): value for key, value in entry.point.items()}
        entry = replace(entry, point=point)
    except (AttributeError, ValueError, TypeError):
        return None
    whole = isinstance(entry.point, dict) and type(entry.seed) is int and isinstance(entry.run, str)
    return entry if whole else None
