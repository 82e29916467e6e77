"""Folders where sweeps or suites of small trainings are typed, some of which die."""

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from warm import Warm

SMALL = """
model: {hidden: 16, layers: 1, heads: 2, feed_forward: 32, max_positions: 96}
data: {arithmetic: {low: 2, high: 9, held_out: 4, validation: 4}}
sft: {steps: 20, batch_size: 8}
rl: {steps: 3, prompts_per_step: 2, rollouts_per_prompt: 2, save_every: 1, stop_when_stuck: false}
rollout: {max_tokens: 8}
sampling: {max_tokens: 8}
sweep: {samples: 4, objective: [pass@1, pass@4], steps: 3}
tracking: {wandb: "off"}
"""
PRESETS = ("--preset", "tiny", "--preset", "small.yaml")
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
FAULTY_GUIDE = '''
import os
import signal
from pathlib import Path
from typing import Literal

from sage_cli.guides import Guide


class Faulty(Guide):
    """q = rho everywhere. With rho 0.8 a training dies of SIGKILL in its first step: where tau is
    1 once, where it is 2 always."""

    name: Literal["faulty"] = "faulty"
    tau: float = 0.0
    rho: float = 1.0

    def q(self, signals, step):
        seen = Path(os.environ["FAULTY"]) / f"died-{self.tau:g}-{self.rho:g}"
        if self.rho == 0.8 and (self.tau == 2 or (self.tau == 1 and not seen.exists())):
            with seen.open("a") as deaths:
                deaths.write("died\\n")
            os.kill(os.getpid(), signal.SIGKILL)
        return signals.logps_BT.new_ones(signals.logps_BT.shape) * self.rho
'''


@dataclass
class SweepLab:
    """Types `sage sweep`, whose tasks begin warm; `words` go into every command."""

    folder: Path
    warm: Warm
    words: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        """Write the preset, and a package with the guide."""
        metadata = "packages/faulty_guide-0.1.dist-info"
        files = {
            "small.yaml": SMALL,
            "packages/faulty_guide/__init__.py": FAULTY_GUIDE,
            f"{metadata}/METADATA": "Metadata-Version: 2.1\nName: faulty-guide\nVersion: 0.1\n",
            f"{metadata}/entry_points.txt": "[sage_cli.guides]\nfaulty = faulty_guide:Faulty\n",
        }
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)

    def space(self, taus, rhos):
        """The file of a grid over the faulty guide's options."""
        path = self.folder / f"grid-{len(taus)}-{len(rhos)}.yaml"
        keys = {"tau": list(taus), "rho": list(rhos)}
        parameters = {k: {"key": f"guide.{k}", "values": v} for k, v in keys.items()}
        path.write_text(json.dumps({"guide": "faulty", "parameters": parameters}))
        return path.name

    def start(self, *words):
        """A sweep in a process group of its own, as a terminal gives it."""
        return self.type_("sweep", *PRESETS, *self.words, *words)

    def type_(self, *words):
        """A command in a process group of its own."""
        return subprocess.Popen(
            [*self.warm.driver, *words],
            cwd=self.folder,
            env=self.surroundings,
            start_new_session=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def surroundings(self):
        """The environment of the commands."""
        paths = [str(self.folder / "packages"), os.environ.get("PYTHONPATH", "")]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "FAULTY": str(self.folder),
            "HF_HUB_OFFLINE": "1",
            **self.environment,
        }

    def run(self, *words, code=0, timeout_s=900):
        """A sweep typed with --json, to its end: the object that it printed."""
        started = self.start(*words, "--json")
        out, errors = started.communicate(timeout=timeout_s)
        assert started.returncode == code, errors[-4000:]
        return json.loads(out)

    def refused(self, *words):
        """What a sweep says on stderr that ends with exit code 2, on one line."""
        started = self.start(*words)
        _, errors = started.communicate(timeout=300)
        assert started.returncode == 2, errors[-1500:]
        return " ".join(errors.replace("│", " ").split())

    @property
    def runs(self):
        """The manifests of all trainings by RL."""
        manifests = self.folder.glob("runs/rl-*/manifest.json")
        return [json.loads(path.read_text()) for path in manifests]

    def begun(self):
        """How often a training's task was begun, by run: each start says that it loads."""
        logs = self.folder.glob("runs/sweeps/*/tasks/rl-*.log")
        return Counter({log.stem: log.read_text().count("loading libraries") for log in logs})

    def tasks(self):
        """The processes that train or measure in this folder, wherever they hang."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            mine = str(self.folder).encode()
            if b"sage_cli" in words and b"sweep" not in words and any(mine in w for w in words):
                found.append(int(entry.name))
        return found

    def wait_until(self, holds, seconds=300):
        """Until `holds()`; fails after so many seconds."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, "waited too long"
            time.sleep(0.05)


class SuiteLab(SweepLab):
    """Types `sage suite`, whose tasks begin warm."""

    def write(self, more=""):
        """The suite, with a line more."""
        (self.folder / "mine.yaml").write_text(SUITE.format(more=more))

    def start(self, verb, *words):
        """A command on the suite in a process group of its own."""
        sets = ("--set", "evaluation.samples=4", "--set", "evaluation.bootstrap=100")
        return self.type_("suite", verb, "mine.yaml", *PRESETS, *sets, *words)


def measured(answer):
    """The measurements of a suite's answer."""
    (chapter,) = answer["chapters"]
    return chapter["sections"]["measured"]


def kill(process):
    """SIGKILL to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
