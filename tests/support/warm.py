"""`sage` and `python -m sage_cli` as programs whose processes have the libraries loaded already.

To import torch, transformers, PEFT and TRL takes longer than most of what tests train. Where a test
isn't about a process's beginning, it types these programs, and the tasks that their commands start
are typed so too.
"""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import warm_client
import warm_server
from filelock import FileLock

PYTHON = """#!/bin/sh
[ "$1" = -u ] && shift
case "$1 $2" in "-m sage_cli" | *".py "*) warm=yes ;; esac
exec {python} ${{warm:+-I -S {client} {socket} {program}}} "$@"
"""
ROOM = " " * 1024
"""An argument in whose place tasks that are forked show their command lines."""
SAGE = """#!/bin/sh
exec {program} -m sage_cli "$@"
"""


@dataclass(frozen=True)
class Warm:
    """The folder of both programs."""

    folder: Path

    @property
    def python(self):
        """A Python whose `-m sage_cli` and whose files of programs are warm.

        With it in PYTHON_EXEC torchrun starts warm processes.
        """
        return str(self.folder / "python")

    @property
    def sage(self):
        """The command line."""
        return str(self.folder / "sage")

    @property
    def driver(self):
        """The command line in a process that begins cold, and whose tasks are warm."""
        line = f"import sys; sys.executable = {self.python!r}"
        return [sys.executable, "-c", f"{line}; from sage_cli.cli.app import main; main()"]


@contextmanager
def warm(folder):
    """The programs in `folder`, which several processes of tests may share."""
    folder.mkdir(exist_ok=True)
    path, programs = folder / "socket", Warm(folder)
    server = None
    with FileLock(folder / "lock"):
        if (lease := _lease(path)) is None:
            server = _start(path)
            _write(programs, path)
            lease = _lease(path)
            assert lease is not None
    with lease:
        yield programs
    if server is not None:  # it ends when the last one has given its lease back
        server.wait()


def _lease(path):
    """A connection that keeps the server alive; None where there is no server."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
        connection.sendall(warm_server.LEASE)
        answered = connection.recv(len(warm_server.LEASE))
    except OSError:
        answered = b""
    if not answered:  # nobody is there, or is just ending
        connection.close()
    return connection if answered else None


def _start(path):
    for old in (path, Path(f"{path}.new")):
        old.unlink(missing_ok=True)
    repository = Path(__file__).resolve().parents[2]
    log = path.with_name("log")
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, warm_server.__file__, str(path), ROOM],
            cwd=repository,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "HF_HUB_OFFLINE": "1",
                "PYTHONPATH": str(repository),
            },
        )
    while not path.exists():
        assert server.poll() is None, log.read_text()
        time.sleep(0.05)
    return server


def _write(programs, path):
    parts = {
        "python": sys.executable,
        "client": warm_client.__file__,
        "socket": path,
        "program": programs.python,
    }
    for file, text in ((programs.python, PYTHON), (programs.sage, SAGE)):
        Path(file).write_text(text.format(**parts))
        Path(file).chmod(0o755)
