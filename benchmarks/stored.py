"""How long commands take whose results are stored already, and how much memory: nothing is drawn.

    python benchmarks/stored.py RUN [RUN] [--rounds 5]

in a folder with `runs/`. Each command is a process of its own; the first round, which may still
draw or grade, isn't counted. `--pythonpath` measures another checkout with the same environment.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path


def main() -> None:
    """Print a row per command: median and range of the wall time, peak resident memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", nargs="+")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pythonpath")
    given = parser.parse_args()
    first, last = given.run[0], given.run[-1]
    commands = {
        "passk RUN --k 1..256": ["passk", first, "--k", "1..256"],
        "passk, the same --json": ["passk", first, "--k", "1..256", "--json"],
        "passk RUN --k 1..128 (another report)": [],
        "eval RUN --k 1,64": ["eval", first, "--k", "1,64"],
        "compare RUN RUN": ["compare", first, last],
        "runs list": ["runs", "list"],
        "passk RUN --dry-run": ["passk", first, "--dry-run"],
        "rl --guide branch --dry-run": ["rl", "--guide", "branch", "--dry-run"],
    }
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    if given.pythonpath:
        environment["PYTHONPATH"] = given.pythonpath
    print(f"{'command':40s} {'median s':>9s} {'range':>14s} {'peak MB':>8s}")
    for name, words in commands.items():
        if words and len(given.run) == 1 and words[0] == "compare":
            continue
        walls, peaks = [], []
        for number in range(given.rounds + 1):
            typed = words or ["passk", first, "--k", f"1..{128 + number}"]
            wall_s, peak_mb = measured([program(), *typed], environment)
            if number:
                walls.append(wall_s)
                peaks.append(peak_mb)
        spread = f"{min(walls):.2f} to {max(walls):.2f}"
        print(f"{name:40s} {statistics.median(walls):9.2f} {spread:>14s} {max(peaks):8.0f}")


def program() -> str:
    """The `sage` of this environment."""
    return str(Path(sys.executable).with_name("sage"))


def measured(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall seconds and peak resident memory in MB of one process."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed:\n{said.decode()}")
    return time.perf_counter() - began, _peak_mb(usage)


def _peak_mb(usage: resource.struct_rusage) -> float:
    """The largest of the process and of what it waited for; children begin with this one's."""
    return usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
