"""What whole-run tests share: the toy policy, and processes of its trainings."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from toy_policy import base, bench, configure, start, tokenizer

__all__ = ["base", "bench", "configure", "start", "tokenizer"]
SUPPORT = Path(__file__).resolve().parents[1] / "support"


@pytest.fixture(scope="session")
def two_processes(warm):
    """Have two processes, which torchrun starts, carry out the orders of a script."""

    def run(script, orders):
        launcher = ["torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
        path = os.pathsep.join([str(SUPPORT), *filter(None, [os.environ.get("PYTHONPATH")])])
        finished = subprocess.run(
            [sys.executable, "-m", *launcher, str(SUPPORT / script), json.dumps(orders)],
            env={
                **os.environ,
                "PYTHONPATH": path,
                "OMP_NUM_THREADS": "1",
                "PYTHON_EXEC": warm.python,
            },
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert finished.returncode == 0, finished.stderr[-4000:]

    return run
