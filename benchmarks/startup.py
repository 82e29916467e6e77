"""How long `sage --help` takes beside `trl --help`, in turns, so that a busy machine slows both.

Processor time is judged: what else runs on the machine hardly shows in it.

python benchmarks/startup.py
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 9


def seconds(command: str) -> tuple[float, float]:
    """Wall and processor time of one `command --help` of this environment, in seconds."""
    program = str(Path(sys.executable).with_name(command))
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "--help"], capture_output=True, check=True)
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print medians and ratios; exit with 1 where the ratio of processor times is above 2."""
    seconds("sage"), seconds("trl")  # once for the disk's cache
    rounds = [(seconds("sage"), seconds("trl")) for _ in range(ROUNDS)]
    ratios = []
    for kind, name in enumerate(("wall", "processor")):
        sage_s, trl_s = (
            statistics.median(one[kind] for one in side) for side in zip(*rounds, strict=True)
        )
        ratios.append(statistics.median(sage[kind] / trl[kind] for sage, trl in rounds))
        print(f"{name}: sage {sage_s:.2f} s, trl {trl_s:.2f} s, sage / trl {ratios[-1]:.2f}")
    print(f"medians of {ROUNDS} rounds; allowed: 2.00")
    sys.exit(ratios[-1] > 2)


if __name__ == "__main__":
    main()
