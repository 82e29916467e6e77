"""A command that a failing disk ended is typed again, and does what it would have done at first."""

import errno
import itertools
import json
import os
import re
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

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


ROWS = [
    {
        "question": f"{a}+1=?",
        "gold": str(a + 1),
        "completion": str(a + right),
        "correct": right == 1,
    }
    for a in range(3)
    for right in (1, 0)
]
COUNTS = "problem,n,c\nx,4,1\ny,4,2\n"
NUMBERS = [errno.ENOSPC, errno.EIO, errno.EMFILE]


def found(folder):
    """The names of the files in a folder, without random digits, locks, and a cache."""
    names = (path.name for path in Path(folder).rglob("*") if path.is_file())
    whole = {re.sub("[0-9a-f]{8,}", "H", name) for name in names if name[0] != "."}
    return whole - {"index"}


@pytest.mark.parametrize(
    ("words", "every"),
    [("samples import rows.jsonl --as theirs", 7), ("passk counts.csv --k 1,2", 19)],
)
def test_a_failing_disk_leaves_nothing_that_the_same_command_stumbles_over(sage, words, every):
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    Path("counts.csv").write_text(COUNTS)
    with failing("runs") as counted:
        assert sage(*words.split()).code == 0
    whole = found("runs")
    assert counted.changes > 10
    tried = range(1, counted.changes + 1, every)
    for at, number in zip(tried, itertools.cycle(NUMBERS), strict=False):
        shutil.rmtree("runs")
        with failing("runs", at, number):
            typed = sage(*words.split())
        if typed.code:  # the lease of a lock may fail to go, which is no error
            typed.refused(os.strerror(number), code=2 if number == errno.ENOSPC else 75)
        again = sage(*words.split())
        assert again.code == 0, (at, os.strerror(number), again.words)
        assert found("runs") == whole, (at, os.strerror(number), typed.words, again.words)


@pytest.mark.parametrize("left", [(), (".lock",), (".lock", ".lock.lease", "config.json")])
def test_a_folder_that_was_only_begun_is_free(sage, left):
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    Path("runs/theirs").mkdir(parents=True)
    for name in (*left, ".manifest.json.0123abcd.tmp"):
        (Path("runs/theirs") / name).touch()
        os.utime(Path("runs/theirs") / name, (1, 1))
    assert sage("samples", "import", "rows.jsonl", "--as", "theirs").code == 0


@pytest.mark.parametrize("name", ["notes.txt", "config.json", ".notes.tmp"])
def test_a_folder_of_somebody_else_is_not(sage, name):
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    Path("runs/theirs").mkdir(parents=True)
    (Path("runs/theirs") / name).write_text("mine")
    typed = sage("samples", "import", "rows.jsonl", "--as", "theirs")
    typed.refused("exists already and is not a run", "choose another name")
    assert (Path("runs/theirs") / name).read_text() == "mine"
