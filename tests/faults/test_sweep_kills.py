"""A sweep that is killed wherever it can be: nothing lost, doubled or orphaned."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import pytest
from sweep_lab import SMALL

from sage_cli.trials.executors.process_guard import LINUX

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(not LINUX, reason="elsewhere /proc does not tell what runs"),
]
KILLS = int(os.environ.get("KILLS", "12"))
"""One for each role and signal, by default."""
ALWAYS = ["--set", "sweep.retries=1000", "--workers", "2"]
MORE = 4
"""Trials that are added to the grid when all are done before the last kill."""
ROLES = ("driver", "task", "watcher", "guard")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MARK = "KILLED_SWEEP"
"""A variable that all processes of a sweep inherit, by which they are found wherever they hang."""


class KilledSweep:
    """A sweep of small trials in `folder`, typed again whenever its driver was killed."""

    def __init__(self, folder, words, program=(sys.executable, "-m", "sage_cli")):
        self.folder, self.words, self.program, self.counts = folder, words, program, Counter()
        self.folder.mkdir()
        (self.folder / "small.yaml").write_text(SMALL)
        self.driver = self.start()

    def start(self):
        """Type the sweep; what it prints is appended to a file."""
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                [*self.program, "sweep", "--preset", "tiny", "--preset", "small.yaml", *self.words],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                env={**os.environ, MARK: str(self.folder)},
            )

    @property
    def said(self):
        """What its drivers printed."""
        return (self.folder / "said").read_text()

    def kill(self, role, number, chance, patience_s=15):
        """Send a signal to a process of that role, if there is one soon.

        A driver is started again when it is gone, and what it left, too.
        """
        deadline = time.monotonic() + patience_s
        while not (found := self.roles().get(role)):
            if self.driver.poll() is not None or time.monotonic() > deadline:
                return
            time.sleep(0.02)
        with suppress(ProcessLookupError):
            os.kill(chance.choice(found), number)
            self.counts[role, number.name] += 1
        if role == "driver":
            self.driver.wait(60)
            self.require_no_orphans()
            self.driver = self.start()

    def require_no_orphans(self, patience_s=30):
        """Fail unless all processes of the sweep end soon after their driver."""
        deadline = time.monotonic() + patience_s
        while left := self.processes():
            assert time.monotonic() < deadline, f"orphans: {left}"
            time.sleep(0.05)

    def processes(self):
        """The living processes of the sweep with their parents and command lines."""
        found = {}
        mark = f"{MARK}={self.folder}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX" and mark in (entry / "environ").read_bytes().split(b"\0"):
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                    found[int(entry.name)] = (int(parent), line)
        return found

    def roles(self):
        """The processes by what they are; helpers of tasks, as graders, are none of these."""
        processes, roles = self.processes(), {}
        if self.driver.pid in processes:
            roles["driver"] = [self.driver.pid]
        for process, (parent, line) in processes.items():
            if process == self.driver.pid:
                continue
            if "process_guard.py" in line:
                role = "watcher" if parent == self.driver.pid else "guard"
                roles.setdefault(role, []).append(process)
            elif "process_guard.py" in processes.get(parent, (0, ""))[1]:
                roles.setdefault("task", []).append(process)
        return roles


def results(folder):
    """The weights and records of each run, without times, and the report's trials."""
    for run in sorted(folder.glob("runs/rl-*")):
        assert json.loads((run / "manifest.json").read_text())["status"] == "finished"
        for file in ("model/model.safetensors", "rollouts.jsonl"):
            yield run.name, hashlib.sha256((run / file).read_bytes()).hexdigest()
        for line in (run / "metrics.jsonl").read_text().splitlines():
            record = json.loads(line)
            yield run.name, {k: v for k, v in record.items() if not k.startswith(("time", "mem"))}
    (report,) = folder.glob("runs/sweeps/*/sweep.json")
    for trial in json.loads(report.read_text())["trials"]:
        yield "trial", {name: trial[name] for name in ("settings", "state", "runs", "values")}


def words(trials):
    """A sweep over a grid of so many trials."""
    taus = "|".join(f"{0.1 + 0.01 * number:.2f}" for number in range(trials))
    space = ["--study", "killed", "--space", f"tau={taus}", "--guide", "branch"]
    return [*ALWAYS, *space, "--set", "sft.steps=3"]


def test_every_kill_is_survived(tmp_path, warm):
    """The results equal those of a sweep that nobody disturbed."""
    trials, chance = 2 * MORE, random.Random(7)
    sweep = KilledSweep(tmp_path / "killed", words(trials))
    pairs = [(role, number) for role in ROLES for number in SIGNALS]
    chance.shuffle(pairs)
    waiting = cycle(pairs)
    while sum(sweep.counts.values()) < KILLS:
        time.sleep(chance.uniform(0, 2))
        sweep.kill(*next(waiting), chance)
        if sweep.driver.poll() is not None:
            assert sweep.driver.returncode == 0, sweep.said[-3000:]
            trials += MORE
            sweep.words = words(trials)
            sweep.driver = sweep.start()
    assert sweep.driver.wait(900) == 0, sweep.said[-3000:]
    sweep.require_no_orphans()
    calm = KilledSweep(tmp_path / "calm", words(trials), warm.driver)
    assert calm.driver.wait(900) == 0, calm.said[-3000:]
    killed, undisturbed = (list(results(one.folder)) for one in (sweep, calm))
    assert killed == undisturbed
    assert Counter(name for name, _ in killed)["trial"] == trials
    kills = {f"{role}, {name}": count for (role, name), count in sorted(sweep.counts.items())}
    sys.stdout.write(f"\n{sum(kills.values())} kills, {trials} trials: {kills}\n")
