"""The journal file in which a study is stored, repaired where its last line is cut off."""

from __future__ import annotations

from pathlib import Path

from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

JOURNAL = "journal.log"


def open_journal(folder: Path) -> JournalStorage:
    """Return the journal in a sweep's folder, for its one driver."""
    folder.mkdir(parents=True, exist_ok=True)
    _repair_journal(folder / JOURNAL)
    return JournalStorage(JournalFileBackend(str(folder / JOURNAL)))


def _repair_journal(path: Path) -> None:
    """Remove what a killed driver left: half a line, and the lock with which it wrote.

    Only the process with the sweep's lock opens the journal to write.
    """
    path.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
    if not path.exists():
        return
    content = path.read_bytes()
    # Optuna appends a line per change: what follows the last newline was being written when the
    # driver died, and would make every later line unreadable
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)
