"""A sweep in a folder of runs that two hosts share and whose locks end at the host, as on NFS."""

import os
import sys
import time
from collections import Counter
from types import SimpleNamespace

import other_host
import pytest
from sweep_lab import SweepLab, kill

from sage_cli.store.locks import EXPIRY_S

pytestmark = pytest.mark.slow
WORDS = ("--space", "beta=0.05|0.06|0.07", "--guide", "branch", "--workers", "1")


@pytest.fixture
def lab(tmp_path):
    cold = SimpleNamespace(driver=[sys.executable, "-m", "sage_cli"])
    made = SweepLab(tmp_path, cold)
    other_host.install(tmp_path / "packages")
    return made


def on(lab, host):
    lab.environment["SAGE_TEST_HOST"] = host
    return lab


def silence(folder):
    """Let all heartbeats be older than what another host waits for."""
    leases = list(folder.glob("runs/**/.*.lease"))
    then = time.time() - EXPIRY_S - 1
    for lease in leases:
        os.utime(lease, (then, then))
    return len(leases)


def test_another_host_waits_its_turn_and_does_only_what_is_left(lab):
    """The driver on a is refused company, and killed; b does the rest, nothing twice."""
    first = on(lab, "a").start(*WORDS)
    lab.wait_until(lambda: any(run["status"] == "finished" for run in lab.runs))
    assert f"run by process {first.pid} on a" in on(lab, "b").refused(*WORDS)

    lab.wait_until(lambda: any(run["status"] == "running" for run in lab.runs))
    kill(first.pid)
    first.communicate()
    lab.wait_until(lambda: not lab.tasks(), seconds=40)
    before = lab.begun()
    assert before
    assert silence(lab.folder)  # left by the driver, and by the task that was ended with it
    found = on(lab, "b").run(*WORDS)
    assert Counter(trial["state"] for trial in found["trials"]) == {"done": 3}
    assert len(lab.runs) == 3
    assert {run["status"] for run in lab.runs} == {"finished"}
    assert sum((lab.begun() - before).values()) <= 2  # what was killed, and what wasn't begun
