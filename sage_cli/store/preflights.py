"""What the preflight of a run found, for the runs that begin as it did."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.errors import SageError
from sage_cli.store.json_files import read_object, write_object
from sage_cli.store.result_hash import key_of

FOLDER = "preflight"
"""Below a folder of runs. Cosmetic: without it each run looks for itself."""


@dataclass(frozen=True)
class KnownPreflight:
    """The place of what was found under `subject`: all that decides it, by content, but chance.

    A store that can't be read or written does not prevent a training run, and of two runs that
    begin at once both look.
    """

    root: Path
    subject: Mapping[str, Any]
    run: str
    """The id of the run at hand."""

    @property
    def _file(self) -> Path:
        return self.root / FOLDER / f"{key_of(self.subject)}.json"

    def read(self) -> dict[str, Any] | None:
        """Return what another run found, with its id as `checked_by`; None if none has looked."""
        with suppress(OSError, SageError):
            facts = read_object(self._file, f"delete {self._file}: the next run looks again")
            # a run that is trained anew looks anew
            return facts if facts.get("checked_by") != self.run else None
        return None

    def write(self, facts: Mapping[str, Any]) -> None:
        """Keep what the run at hand has found."""
        with suppress(OSError, SageError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_object(self._file, {**facts, "checked_by": self.run})
