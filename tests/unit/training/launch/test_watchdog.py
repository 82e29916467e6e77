"""What a launched process says of a failure, once its launcher is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sage_cli.store.runs.run import Run

FAILING = """
import sys, threading
from pathlib import Path
from sage_cli.store.runs.run import Run
from sage_cli.training.launch import watchdog
# whoever follows looks too late: the failure comes first
threading.Thread.start = lambda self: None
run = Run(Path(sys.argv[1]))
lives = watchdog.follow()
with run.recording({}, kind="rl"), watchdog.ended_with(lives):
    raise RuntimeError("Connection closed by peer")
"""


@pytest.mark.parametrize(
    ("launcher", "code", "status"),
    [("lives", 1, "failed"), ("gone", -signal.SIGKILL, "interrupted")],
)
def test_a_failure_after_the_launchers_death_says_nothing_of_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, code: int, status: str
):
    from sage_cli.training.launch.watchdog import VARIABLE, command_lock

    monkeypatch.setenv(VARIABLE, str(tmp_path))
    command = [sys.executable, "-c", FAILING, str(tmp_path)]
    if launcher == "lives":
        with command_lock(tmp_path):
            ended = subprocess.run(command, capture_output=True, text=True, timeout=100)
    else:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert ended.returncode == code, ended.stderr
    assert Run(tmp_path).status == status
