"""What it gives a training that freed memory is kept, in pairs of processes.

    python benchmarks/allocator.py --model runs/sft-word-problems-14f069cf/model --tokens 80
    python benchmarks/allocator.py --at-once 2 --model ...    # two trainings beside each other

Each process is a training of rl_step.py, no guide, with `sage`'s settings of the allocator or
as glibc comes, since an environment that names glibc's settings is left alone. Printed are the
ratios of the first to the second, of a step's median time and of peak memory: the medians of the
pairs', and each.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

RL_STEP = Path(__file__).with_name("rl_step.py")
KEPT: Mapping[str, str] = {}
AS_IT_COMES: Mapping[str, str] = {"GLIBC_TUNABLES": ""}


def trained(command: list[str], setting: Mapping[str, str], at_once: int) -> dict[str, float]:
    """Means of what `at_once` trainings beside each other say of themselves."""
    threads = str(max(1, (os.cpu_count() or 1) // at_once))
    environment = {**os.environ, "OMP_NUM_THREADS": threads, **setting}
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(at_once)
    ]
    said = [json.loads(process.communicate()[0].splitlines()[-1]) for process in running]
    return {key: statistics.mean(one[key] for one in said) for key in said[0]}


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--steps", type=int, default=6)
    sizes, others = parser.parse_known_args()
    command = [
        sys.executable,
        str(RL_STEP),
        "--peak-of",
        "none",
        "--pairs",
        str(sizes.steps),
        *others,
    ]
    pairs = []
    for pair in range(sizes.pairs):
        order = (KEPT, AS_IT_COMES) if pair % 2 else (AS_IT_COMES, KEPT)
        found = {id(setting): trained(command, setting, sizes.at_once) for setting in order}
        pairs.append((found[id(KEPT)], found[id(AS_IT_COMES)]))
        print(json.dumps(pairs[-1]), file=sys.stderr, flush=True)
    ratios = {
        key: [kept[key] / plain[key] for kept, plain in pairs] for key in ("step_s", "peak_mb")
    }
    print(
        json.dumps(
            {
                "at_once": sizes.at_once,
                **{key: statistics.median(values) for key, values in ratios.items()},
                "each": ratios,
            }
        )
    )


if __name__ == "__main__":
    main()
