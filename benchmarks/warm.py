"""A sweep whose tasks are forked from a warm process beside one whose tasks start cold.

    python benchmarks/warm.py [--steps 3] [--rounds 3] [--workers 2]
    python benchmarks/warm.py --whole --sft-steps 150 [--rounds 1] [--space tau,rho]

The initial policy is trained beforehand; each round types the sweep of Table 6's grid once each
way, in a folder of its own that is removed, in turns, so that a busy machine slows both. Processor
time is that of the driver and of all it started. `--whole` takes the built-in numbers of steps and
samples. The result files of both ways are compared: weights, rollouts, and what records hold
besides times.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

MEASURED = ("time/", "memory/")
"""Beginnings of what a record says of the machine."""


def main() -> None:
    """Print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--sft-steps", type=int, default=20)
    parser.add_argument("--space", default="tau,rho")
    given = parser.parse_args()
    sets: dict[str, object] = {"tracking.wandb": "off", "sft.steps": given.sft_steps}
    if not given.whole:
        sets |= {
            "rl.steps": given.steps, "sweep.steps": given.steps,
            "sweep.samples": given.samples, "sweep.objective": "pass@1",
        }  # fmt: skip
    settings = [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
    where = ["--space", given.space, "--workers", str(given.workers)]
    sweep = ["sweep", "--guide", "branch", *where, *settings]
    with tempfile.TemporaryDirectory() as name:
        lab = Path(name)
        base = lab / "base"
        base.mkdir()
        _typed(base, "sft", *settings)
        rounds = []
        for number in range(given.rounds):
            ways = (True, False) if number % 2 else (False, True)
            rounds.append({warm: _round(lab, base, sweep, warm=warm) for warm in ways})
            print({warm: seconds[:2] for warm, seconds in rounds[-1].items()}, flush=True)
    _show(rounds)
    if any(one[True][2] != one[False][2] for one in rounds):
        sys.exit("results differ")


def _round(lab: Path, base: Path, sweep: list[str], *, warm: bool) -> tuple[float, float, str]:
    """Seconds on the wall, seconds of processors, and a hash of the results."""
    folder = lab / ("warm" if warm else "cold")
    shutil.copytree(base / "runs", folder / "runs")
    began, before = time.perf_counter(), _processor_s()
    _typed(folder, *sweep, "--set", f"executor.warm={str(warm).lower()}")
    seconds = time.perf_counter() - began, _processor_s() - before
    digest = hashlib.sha256("\n".join(_results(folder)).encode()).hexdigest()
    shutil.rmtree(folder)
    return *seconds, digest


def _show(rounds: list[dict[bool, tuple[float, float, str]]]) -> None:
    print(f"| medians of {len(rounds)} | warm | cold | ratio |\n|---|---|---|---|")
    for kind, name in enumerate(("wall time (s)", "processor time (s)")):
        warm, cold = ([float(one[way][kind]) for one in rounds] for way in (True, False))
        ratio = statistics.median(a / b for a, b in zip(warm, cold, strict=True))
        print(
            f"| {name} | {statistics.median(warm):.1f} | {statistics.median(cold):.1f} "
            f"| **{ratio:.2f}** |"
        )


def _results(folder: Path) -> Iterator[str]:
    """A line for each result: weights, rollouts, and records without times."""
    runs = folder / "runs"
    for file in sorted(runs.glob("rl-*/**/*")):
        name = str(file.relative_to(runs))
        if file.suffix in (".safetensors", ".pt") or file.name == "rollouts.jsonl":
            yield f"{name} {hashlib.sha256(file.read_bytes()).hexdigest()}"
        elif file.name == "metrics.jsonl":
            for line in file.read_text().splitlines():
                record = json.loads(line)
                kept = {k: v for k, v in record.items() if not k.startswith(MEASURED)}
                yield f"{name} {json.dumps(kept)}"


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _typed(folder: Path, *words: str) -> None:
    command = [sys.executable, "-m", "sage_cli", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr[-2000:]}")


if __name__ == "__main__":
    main()
