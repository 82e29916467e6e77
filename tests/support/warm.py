"""`sage` and `python -m sage_cli` as programs whose processes have the libraries loaded already.

To import torch, transformers, PEFT and TRL takes longer than most of what tests train. Where a test
isn't about a process's beginning, it types these programs, and the tasks that their commands start
are typed so too.
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

HERE = Path(__file__).resolve().parent
PYTHON = """#!/bin/sh
[ "$1" = -u ] && shift
case "$1 $2" in "-m sage_cli" | *".py "*) warm=yes ;; esac
exec {python} ${{warm:+-I -S {client} {socket} {program}}} "$@"
"""
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


def start_warm(folder, owner):
    """The programs in `folder`, which processes of tests share, until the process `owner` ends."""
    folder.mkdir(exist_ok=True)
    programs, path = Warm(folder), folder / "socket"
    with FileLock(folder / "lock"):
        if not path.exists():
            _write(programs, path)
            _start(path, owner)
    return programs


def _start(path, owner):
    log = path.with_name("log")
    repository = HERE.parents[1]
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, str(HERE / "warm_server.py"), str(path), str(owner)],
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


def _write(programs, path):
    parts = {
        "python": sys.executable,
        "client": HERE / "warm_client.py",
        "socket": path,
        "program": programs.python,
    }
    for file, text in ((programs.python, PYTHON), (programs.sage, SAGE)):
        Path(file).write_text(text.format(**parts))
        Path(file).chmod(0o755)
