"""Grading where training happens: under torch, from a thread, below a launcher, in a daemon."""

import subprocess
import sys

import pytest

SCRIPT = r"""
import multiprocessing, threading
import torch
from sage_cli.grading import Grader, grade

torch.ones(2).sum()
found = []

def work():
    with Grader(workers=2, timeout_s=60) as grader:
        surds = [(r"\sqrt{%d}" % (4 * n), r"2\sqrt{%d}" % n) for n in (2, 3, 5)]
        pairs = [(gold, "<SOLUTION>" + surd + "</SOLUTION>") for gold, surd in surds]
        found.extend(one.status for one in grader.grade_many(pairs))

thread = threading.Thread(target=work)
thread.start()
thread.join()
print("thread", *found, flush=True)

def in_daemon():
    print("daemon", grade(r"\sqrt{8}", r"<SOLUTION>2\sqrt{2}</SOLUTION>").status, flush=True)

daemon = multiprocessing.get_context("fork").Process(target=in_daemon, daemon=True)
daemon.start()
daemon.join()
"""


@pytest.mark.slow
def test_a_launched_script_without_a_main_guard(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    launcher = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1"]
    done = subprocess.run(
        [*launcher, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == ["thread right right right", "daemon right"]
