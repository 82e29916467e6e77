"""How far the toy's numbers differ between machines: one training run in six kinds of arithmetic.

    python benchmarks/machines.py FOLDER                # about ten minutes on two idle cores

Every row starts from the base that comes with sage, which is the same everywhere, and types
`sage rl --algo dapo --guide branch --measure` with other kernels of torch (`ATEN_CPU_CAPABILITY`)
and with one or two threads. `default` also keeps oneDNN and MKL to SSE4, as a processor of 2008
does. Rounding alone differs: a sum in another order changes the last bits of a logit, and once a
sample differs, so does all that is trained after it. Printed are pass@k before and after RL, and
the processor seconds of training and measuring. What was trained before is found.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

KERNELS = {
    "avx512": {},
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "default": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
    },
}
"""What each kind sets. The first sets nothing: it is what the processor has at best."""
THREADS = (1, 2)
KS = (1, 8, 64, 256)
BASE = "sft-arithmetic"


def measured(folder: Path, kernels: str, threads: int) -> dict[str, Any]:
    """Train and measure in a folder of its own; return pass@k by policy, and seconds."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **KERNELS[kernels], "OMP_NUM_THREADS": str(threads)}

    def sage(*words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "sage_cli", *words, "--json"]
        typed = subprocess.run(command, cwd=folder, env=environment, stdout=-1, check=True)
        return dict(json.loads(typed.stdout))

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = sage("rl", "--algo", "dapo", "--guide", "branch", "--measure")["id"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer = sage("passk", BASE, run, "--k", ",".join(map(str, KS)))
    at = [answer["k"].index(k) for k in KS]
    return {
        "pass@k": {
            curve["policy"]: [curve["pass@k"][place] for place in at] for curve in answer["curves"]
        },
        "seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def main(folder: Path) -> None:
    """Print a row for each kind of arithmetic and each policy."""
    print(f"| kernels, threads | policy | {' | '.join(f'pass@{k}' for k in KS)} | processor s |")
    print(f"|---|---|{'---|' * len(KS)}---|")
    for kernels, threads in product(KERNELS, THREADS):
        found = measured(folder / f"{kernels}-{threads}", kernels, threads)
        for policy, values in found["pass@k"].items():
            shown = " | ".join(f"{value:.3f}" for value in values)
            print(f"| {kernels}, {threads} | {policy} | {shown} | {found['seconds']:.0f} |")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
