"""A nine-trial sweep beside nine pipelines typed by hand, two workers beside one, and its overhead.

    python benchmarks/sweep.py [--sft-steps 150] [--steps 8] [--samples 16]
        [--pipelines 9] [--parts pipelines workers]

Everything is typed as commands, in folders of its own that are removed. A pipeline is what one who
has no sweeps writes: `sage sft`, `sage rl`, `sage eval` with a trial's settings, in a folder of its
own. Fewer pipelines than nine are scaled up, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TRIALS = [(tau, rho) for tau in (0.31, 0.465, 0.775) for rho in (0.258, 0.775, 1.292)]
"""Table 6's grid around tiny's pair."""
PARTS = ("pipelines", "workers")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sft-steps", type=int, default=150)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--pipelines", type=int, default=9)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    given = parser.parse_args()
    sets = {
        "sft.steps": given.sft_steps,
        "rl.steps": given.steps,
        "sweep.steps": given.steps,
        "sweep.samples": given.samples,
        "sweep.objective": "pass@1",
        "evaluation.samples": given.samples,
        "evaluation.k": f"1,{given.samples}",
        "evaluation.benchmark": "arithmetic-dev",
        "tracking.wandb": "off",
    }
    settings = [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
    with tempfile.TemporaryDirectory() as name:
        lab = Path(name)
        print("| what | seconds | ratio |\n|---|---|---|")
        if "pipelines" in given.parts:
            _pipelines(lab, settings, given.pipelines)
        if "workers" in given.parts:
            _workers(lab, settings)


def _pipelines(lab: Path, settings: list[str], typed: int) -> None:
    """Print what nine pipelines take, `typed` of them measured, and what the sweep takes."""
    typed_s = sum(_pipeline(lab / str(n), settings, n) for n in range(typed))
    nine_s = typed_s * len(TRIALS) / typed
    scaled = "" if typed == len(TRIALS) else f" (from {typed})"
    print(f"| nine pipelines typed one after the other{scaled} | {nine_s:.0f} | |", flush=True)
    whole_s = _sweep(lab / "whole", settings, workers=2)
    print(f"| the sweep, base included, two workers | {whole_s:.0f} | {nine_s / whole_s:.2f} |")


def _workers(lab: Path, settings: list[str]) -> None:
    """Print what the trials take with one worker, with two, and typed one after the other."""
    _typed(lab / "base", "sft", *settings)
    one_s, two_s = (
        _sweep(_copied(lab / "base", lab / f"by-{workers}"), settings, workers=workers)
        for workers in (1, 2)
    )
    print(f"| its trials with one worker, the base there | {one_s:.0f} | |")
    print(f"| its trials with two workers | {two_s:.0f} | {one_s / two_s:.2f} |", flush=True)
    alone_s = sum(_trials_by_hand(_copied(lab / "base", lab / "hand"), lab / "by-1"))
    start_s = min(_seconds([sys.executable, "-m", "sage_cli", "--help"], lab) for _ in range(3))
    print(f"| the trials' own commands, one after the other | {alone_s:.0f} | |")
    print(f"| the driver's overhead, for each trial | {(one_s - alone_s) / len(TRIALS):.2f} | |")
    print(f"| starting `sage` | {start_s:.2f} | |")


def _pipeline(folder: Path, settings: list[str], number: int) -> float:
    """Base, training and evaluation of a trial; with two threads, as a machine of its own has."""
    tau, rho = TRIALS[number]
    trial = ["--guide", "branch", "--set", f"guide.tau={tau}", "--set", f"guide.rho={rho}"]
    began = time.perf_counter()
    _typed(folder, "sft", *settings)
    run = _typed(folder, "rl", *settings, *trial)["id"]
    _typed(folder, "eval", run, *settings)
    shutil.rmtree(folder)
    return time.perf_counter() - began


def _sweep(folder: Path, settings: list[str], *, workers: int) -> float:
    began = time.perf_counter()
    found = _typed(folder, "sweep", "--space", "tau,rho", "--workers", str(workers), *settings)
    if any(trial["state"] != "done" for trial in found["trials"]):
        raise SystemExit(f"the sweep failed: {found}")
    return time.perf_counter() - began


def _trials_by_hand(folder: Path, swept: Path) -> list[float]:
    """The commands that the sweep in `swept` ran, typed one after the other in `folder`."""
    environment = {"OMP_NUM_THREADS": str(os.cpu_count())}
    commands = [
        ["rl", "--measure", "--config", str(file)]
        for file in sorted(swept.glob("runs/sweeps/*/tasks/rl-*.json"))
    ]
    (base,) = swept.glob("runs/sweeps/*/tasks/*-measured.json")
    name = base.stem.removesuffix("-measured")
    commands.append(["eval", name, "--config", str(base)])
    return [
        _seconds([sys.executable, "-m", "sage_cli", *words], folder, environment)
        for words in commands
    ]


def _copied(source: Path, target: Path) -> Path:
    return Path(shutil.copytree(source, target))


def _typed(folder: Path, *words: str) -> dict[str, object]:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "sage_cli", *words, "--json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr[-2000:]}")
    found: dict[str, object] = json.loads(done.stdout)
    return found


def _seconds(command: list[str], folder: Path, more: dict[str, str] | None = None) -> float:
    began = time.perf_counter()
    environment = {**os.environ, **(more or {})}
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
