"""A fork server refuses to fork where a fork would hang; the rest is in the contract's tests."""

import os
import subprocess
import sys

import pytest

from sage_cli.trials.executors.process_guard import LINUX

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not LINUX, reason="elsewhere all are cold")]
ASK = "from sage_cli.trials.executors.fork_server import obstacle; print(obstacle())"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("import numpy; a = numpy.ones((500, 500)); a @ a", "None"),  # its threads end at a fork
        ("import datasets", "None"),  # pyarrow's allocator has a thread that survives forks
        ("import threading, time; threading.Thread(target=time.sleep, args=(9,), daemon=True)"
         ".start()", "loading the libraries started threads: python"),
        ("import torch; torch.ones(10**6).add(1)", "loading the libraries started threads: "),
        ("import torch; torch.accelerator.is_available = lambda: True",
         "the libraries see an accelerator"),
    ],
)  # fmt: skip
def test_an_obstacle(before: str, said: str) -> None:
    """A pool of OpenMP hangs in a fork; those that end by themselves do not."""
    done = subprocess.run(
        [sys.executable, "-c", f"{before}; {ASK}"], env={**os.environ, "OMP_NUM_THREADS": "2"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(said)
