"""One writer per directory, across processes."""

import os
import subprocess
import sys

import pytest

from sage_cli.errors import StoreError
from sage_cli.store.lock import writer

HOLD = """
import sys
from pathlib import Path
from sage_cli.store.lock import writer
with writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder until it is killed or its stdin closes."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_with_the_firsts_name(tmp_path, holder):
    with pytest.raises(StoreError, match=f"process {holder.pid} on ") as caught, writer(tmp_path):
        pass
    assert str(tmp_path) in caught.value.cause


def test_a_killed_holder_holds_nothing(tmp_path, holder):
    holder.kill()
    holder.wait()
    with writer(tmp_path):
        assert f"process {os.getpid()} " in (tmp_path / ".lock").read_text()


def test_the_same_process_is_refused_too_and_the_end_frees_it(tmp_path):
    with writer(tmp_path), pytest.raises(StoreError, match="being written"), writer(tmp_path):
        pass
    with writer(tmp_path):
        pass
