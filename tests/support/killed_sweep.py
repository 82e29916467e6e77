"""Kills what a sweep consists of: driver, tasks, and their watchers and guards."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from sweep_lab import SMALL

ROLES = ("driver", "task", "watcher", "guard")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MARK = "KILLED_SWEEP"
"""A variable that all processes of a sweep inherit, by which they are found wherever they hang."""


@dataclass
class KilledSweep:
    """A sweep of small trials in `folder`, typed again whenever its driver was killed."""

    folder: Path
    words: list[str]
    program: Sequence[str] = (sys.executable, "-m", "sage_cli")
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "small.yaml").write_text(SMALL)
        self.driver = self.start()

    def start(self, *more: str) -> subprocess.Popen[bytes]:
        """Type the sweep; what it prints is appended to a file."""
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(
                [*self.program, "sweep", "--preset", "tiny", "--preset", "small.yaml",
                 *self.words, *more],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                start_new_session=True, env={**os.environ, MARK: str(self.folder)},
            )  # fmt: skip

    @property
    def said(self) -> str:
        """What its drivers printed."""
        return (self.folder / "said").read_text()

    def kill(
        self, role: str, number: signal.Signals, chance: random.Random, patience_s: float = 15
    ) -> None:
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

    def require_no_orphans(self, patience_s: float = 30) -> None:
        """Fail unless all processes of the sweep end soon after their driver."""
        deadline = time.monotonic() + patience_s
        while left := self.processes():
            assert time.monotonic() < deadline, f"orphans: {left}"
            time.sleep(0.05)

    def processes(self) -> dict[int, tuple[int, str]]:
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

    def roles(self) -> dict[str, list[int]]:
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


def results(folder: Path) -> Iterator[tuple[str, object]]:
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
