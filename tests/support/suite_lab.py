"""A folder where suites of small trainings are typed, some of which die."""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sweep_lab import SweepLab

SUITE = """
title: "A small suite"
methods:
  base: base
  grpo: grpo
  {more}
k: 1,4
seeds: 1
claims: grpo > base at pass@4
"""


@dataclass
class SuiteLab(SweepLab):
    """Types `sage suite run mine.yaml`, whose tasks begin warm."""

    def write(self, more: str = "") -> None:
        """The suite, with a line more."""
        (self.folder / "mine.yaml").write_text(SUITE.format(more=more))

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A suite's command in a process group of its own."""
        presets = ["--preset", "tiny", "--preset", "small.yaml", "--json"]
        sets = ["--set", "evaluation.samples=4", "--set", "evaluation.bootstrap=100"]
        return subprocess.Popen(
            [*self.warm.driver, "suite", *(words or ["run"]), "mine.yaml", *presets, *sets],
            cwd=self.folder, env=self.surroundings, start_new_session=True, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def done(self, *words: str) -> dict[str, Any]:
        """A command to its end: the object that it printed."""
        process = self.start(*words)
        out, errors = process.communicate(timeout=3000)
        assert process.returncode == 0, errors[-4000:]
        answer: dict[str, Any] = json.loads(out)
        return answer

    def training(self) -> int | None:
        """The process that trains by RL, as it says itself while it lives; None where none does."""
        for held in self.folder.glob("runs/rl-*/.lock.lease"):
            with suppress(OSError, ValueError):
                pid = int(json.loads(held.read_text())["pid"])
                os.kill(pid, 0)
                return pid
        return None

    def begun_tasks(self) -> int:
        """How often a training was begun or taken up."""
        logs = self.folder.glob("runs/suites/mine-*/tasks/*.log")
        return sum(log.read_text().count("loading libraries") for log in logs)


def measured(answer: dict[str, Any]) -> Any:
    """The measurements of a suite's answer."""
    (chapter,) = answer["chapters"]
    return chapter["sections"]["measured"]
