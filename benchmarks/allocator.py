"""What it gives a training that freed memory is kept, in pairs of processes.

    python benchmarks/allocator.py --model runs/sft-arithmetic-533acbe5/model --tokens 80

Each is a training of rl_step.py without a guide: one with `sage`'s settings of the allocator, then
one as glibc comes, since an environment that names glibc's settings is left alone; in the next pair
the other way round. Side by side they would take from each other. Printed are the ratios of the
first to the second, of a step's median time and of peak memory: medians over pairs, and each.
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
KEPT: dict[str, str] = {}
AS_IT_COMES = {"GLIBC_TUNABLES": ""}


def trained(command: list[str], setting: dict[str, str]) -> dict[str, float]:
    """What a training in an environment with `setting` says of itself."""
    done = subprocess.run(
        command, env={**os.environ, **setting}, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def pair(command: list[str], turned: bool) -> tuple[dict[str, float], dict[str, float]]:
    """What a training that keeps and one that doesn't say; `turned`: the second goes first."""
    if turned:
        plain = trained(command, AS_IT_COMES)
        return trained(command, KEPT), plain
    return trained(command, KEPT), trained(command, AS_IT_COMES)


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=8)
    own, others = parser.parse_known_args()
    command = [sys.executable, str(RL_STEP), "--peak-of", "none", "--pairs", str(own.steps)]
    pairs = [pair([*command, *others], bool(number % 2)) for number in range(own.pairs)]
    each = {key: [kept[key] / plain[key] for kept, plain in pairs] for key in ("step_s", "peak_mb")}
    medians = {key: statistics.median(ratios) for key, ratios in each.items()}
    print(json.dumps({"ratio": "kept / as it comes", **medians, "each": each}))


if __name__ == "__main__":
    main()
