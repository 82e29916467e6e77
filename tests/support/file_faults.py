"""Have the n-th change of a file system below a folder fail, as a full disk or a dying one does."""

import errno
import os
import sys
from contextlib import contextmanager
from pathlib import Path

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_armed = []
"""The fault that acts now, if there is one: audit hooks can't be taken away again."""


class Fault:
    """Counts the changes below `folder`; the one numbered `at` fails with the error `number`."""

    def __init__(self, folder: Path, at: int | None, number: int) -> None:
        self.folder, self.at, self.number, self.changes = folder, at, number, 0

    def hear(self, path) -> None:
        """Count a change of `path`, or fail it. A descriptor was heard when it was opened."""
        if path is None or isinstance(path, int):
            return
        path = os.fsdecode(path)
        if self.folder not in (path := Path.cwd() / path, *path.parents):
            return
        self.changes += 1
        if self.changes == self.at:
            raise OSError(self.number, os.strerror(self.number), str(path))


def _hear(event, arguments):
    if not _armed:
        return
    if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
        _armed[0].hear(arguments[0])
    elif event in CHANGES:
        _armed[0].hear(arguments[1] if event == "os.rename" else arguments[0])


sys.addaudithook(_hear)


@contextmanager
def failing(folder, at=None, number=errno.ENOSPC):
    """Yield a Fault that acts while the block runs; without `at` it only counts."""
    fault = Fault(Path(folder).resolve(), at, number)
    _armed.append(fault)
    try:
        yield fault
    finally:
        _armed.clear()
