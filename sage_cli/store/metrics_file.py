"""metrics.jsonl, the authoritative record of a training run: one JSON object per optimiser step."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.json_value import json_value

if TYPE_CHECKING:
    from sage_cli.store.locks import Lease

from sage_cli.store.files import storing, write_text
from sage_cli.store.json_files import warn_once, without_nan

_SHOWN = 5
"""Corrupt lines that a warning names by number."""
END_BYTES = 4096
"""A record of a step has about one and a half thousand."""


class MetricsFile:
    """Append-only except for `rewind`, by which a resumed training repeats no step."""

    def __init__(
        self,
        path: Path,
        needs: Mapping[str, type] | None = None,
        lease: Lease | None = None,
        sealed: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`needs` are the keys, with the types of their values, without which a line is corrupt.

        `lease` is that of the run, which every record requires. `sealed` returns the SHA-256 that
        the file of a finished run must have.
        """
        self.path, self._needs, self._lease = path, needs or {}, lease
        self._sealed = sealed

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one record as one line and flush it; a number that isn't finite is null.

        JSON has neither NaN nor infinity, and strict readers refuse the whole file for one.
        Raises StoreError if that fails, or if another process has taken the run over.
        """
        if self._lease is not None:
            self._lease.require()
        with storing(self.path.parent):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # opened for each record: closing flushes it, and O_APPEND puts a line at the end even
            # if `rewind` has replaced the file
            with self.path.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(without_nan(record), allow_nan=False) + "\n")

    def read(self) -> list[dict[str, Any]]:
        """Return all whole records in order; corrupt lines are left out with one warning.

        There is no warning for a corrupt last line: it is being written, or was when the writer was
        killed, and the resumed training writes it again.
        """
        records = list(map(self._record, self._lines()))
        corrupt = [number for number, record in enumerate(records[:-1], start=1) if record is None]
        if corrupt:
            warn_once(_describe_lines(self.path, corrupt))
        return [record for record in records if record is not None]

    def last(self, step: int) -> list[dict[str, Any]]:
        """Return the records of `step`, the last one that was written; none if it has none."""
        whole = filter(None, map(self._record, reversed(self._lines())))
        return list(takewhile(lambda record: record["step"] == step, whole))[::-1]

    def latest(self, *, compared: bool = False, end: str | None = None) -> dict[str, Any]:
        """Return the last whole record; empty if there is none.

        Only the end of the file is read, unless that has no whole record, or the file is to be
        `compared` with what its training left. `end` is the hash that the end must have
        (`end_hash`): another one is named once.
        """
        if end is not None and end != self.end_hash():
            warn_once(f"{self.path} has been changed since its training ended")
        for lines in (self._lines,) if compared else (self._last_lines, self._lines):
            if record := next(filter(None, map(self._record, filter(None, lines()[::-1]))), None):
                return record
        return {}

    def rewind(self, step: int) -> None:
        """Remove every record after optimiser step `step` (0 removes all).

        If there is none, the file is not replaced, for programs that follow it.
        """
        if self.path.is_file():
            records = [record for record in self.read() if record["step"] <= step]
            text = "".join(json.dumps(record) + "\n" for record in records)
            if text.encode() != self.path.read_bytes():
                write_text(self.path, text)

    def _lines(self) -> list[bytes]:
        """Return the lines and the text after the last newline; none without a file.

        A file that isn't what its training left is named once.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            content = b""
        if self._sealed() not in (None, hashlib.sha256(content).hexdigest()):
            warn_once(f"{self.path} has been changed since its training ended")
        return content.split(b"\n") if content else []

    def end_hash(self) -> str | None:
        """Return the SHA-256 of the file's last END_BYTES, which hold its last record; or None."""
        try:
            with self.path.open("rb") as handle:
                # the end only: a run's record of thousands of steps has megabytes, and tables list
                # thousands of runs
                handle.seek(max(0, handle.seek(0, os.SEEK_END) - END_BYTES))
                return hashlib.sha256(handle.read()).hexdigest()
        except FileNotFoundError:
            return None

    def _last_lines(self) -> list[bytes]:
        """Return the lines that end in the last END_BYTES of the file and begin there, too."""
        try:
            with self.path.open("rb") as handle:
                if handle.seek(0, os.SEEK_END) <= END_BYTES:
                    return []
                handle.seek(-END_BYTES, os.SEEK_END)
                # the first piece begins in the middle of a line, most likely
                return handle.read().split(b"\n")[1:]
        except FileNotFoundError:
            return []

    def _record(self, line: bytes) -> dict[str, Any] | None:
        """Return a line's record; None if it is no JSON object with the needed keys."""
        try:
            record = json_value(line)
        except ValueError:
            return None
        if not isinstance(record, dict):
            return None
        whole = all(isinstance(record.get(key), kind) for key, kind in self._needs.items())
        return record if whole else None


def _describe_lines(path: Path, corrupt: list[int]) -> str:
    numbers = ", ".join(map(str, corrupt[:_SHOWN])) + (", ..." if len(corrupt) > _SHOWN else "")
    lines = f"lines {numbers} are" if len(corrupt) > 1 else f"line {numbers} is"
    return f"{path} is corrupt or was edited: {lines} left out"
