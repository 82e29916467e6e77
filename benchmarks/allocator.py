"""What it gives that freed memory is kept: two trainings beside each other, one with it.

    python benchmarks/allocator.py --model runs/sft-word-problems-14f069cf/model --tokens 80

Both are trainings of rl_step.py without a guide: one with `sage`'s settings of the allocator, the
other as glibc comes, since an environment that names glibc's settings is left alone. They begin
together and share the machine, so that what else it does meets both. Printed are the ratios of
the first to the second, of a step's median time and of peak memory: the medians of the pairs', and
each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

RL_STEP = Path(__file__).with_name("rl_step.py")
SETTINGS: tuple[dict[str, str], ...] = ({}, {"GLIBC_TUNABLES": ""})
"""Kept, and as glibc comes."""


def pair(command: list[str]) -> list[dict[str, float]]:
    """What two trainings that run at the same time say of themselves."""
    threads = str(max(1, (os.cpu_count() or 1) // 2))
    running = [
        subprocess.Popen(
            command,
            env={**os.environ, "OMP_NUM_THREADS": threads, **setting},
            stdout=subprocess.PIPE,
            text=True,
        )
        for setting in SETTINGS
    ]
    return [json.loads(process.communicate()[0].splitlines()[-1]) for process in running]


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    own, others = parser.parse_known_args()
    command = [sys.executable, str(RL_STEP), "--peak-of", "none", "--pairs", str(own.steps)]
    pairs = [pair([*command, *others]) for _ in range(own.pairs)]
    each = {key: [kept[key] / plain[key] for kept, plain in pairs] for key in ("step_s", "peak_mb")}
    medians = {key: statistics.median(ratios) for key, ratios in each.items()}
    print(json.dumps({"ratio": "kept / as it comes", **medians, "each": each}))


if __name__ == "__main__":
    main()
