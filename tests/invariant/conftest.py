"""What whole-run tests share: the toy policy, and processes of its trainings."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from toy_policy import base, bench, configure, tokenizer

__all__ = ["base", "bench", "configure", "tokenizer"]
SUPPORT = Path(__file__).resolve().parents[1] / "support"


@pytest.fixture(scope="session")
def start(warm):
    """Start a process that carries out orders, with one thread: sums depend on how many there are.

    Its output ends when it is dead.
    """

    def begin(*orders):
        return subprocess.Popen(
            [warm.python, str(SUPPORT / "toy_run.py"), json.dumps(orders)],
            env={**os.environ, "OMP_NUM_THREADS": "1"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    return begin
