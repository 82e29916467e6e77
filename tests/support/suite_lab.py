"""A folder where suites of small trainings are typed, some of which die."""

import json
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass

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
    """Types `sage suite`, whose tasks begin warm."""

    def write(self, more=""):
        """The suite, with a line more."""
        (self.folder / "mine.yaml").write_text(SUITE.format(more=more))

    def start(self, *words):
        """A command on the suite in a process group of its own."""
        verb, *further = words
        presets = ["--preset", "tiny", "--preset", "small.yaml"]
        sets = ["--set", "evaluation.samples=4", "--set", "evaluation.bootstrap=100"]
        return subprocess.Popen(
            [*self.warm.driver, "suite", verb, "mine.yaml", *presets, *sets, *further],
            cwd=self.folder,
            env=self.surroundings,
            start_new_session=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def training(self):
        """The process that trains by RL, as it says itself while it lives; None where none does."""
        for held in self.folder.glob("runs/rl-*/.lock.lease"):
            with suppress(OSError, ValueError):
                pid = int(json.loads(held.read_text())["pid"])
                os.kill(pid, 0)
                return pid
        return None

    def begun_tasks(self):
        """How often a training was begun or taken up."""
        logs = self.folder.glob("runs/suites/mine-*/tasks/*.log")
        return sum(log.read_text().count("loading libraries") for log in logs)


def measured(answer):
    """The measurements of a suite's answer."""
    (chapter,) = answer["chapters"]
    return chapter["sections"]["measured"]
