"""Stores of processes that train together listen where nobody else can reach them."""

import json
import os
import subprocess
from datetime import timedelta
from pathlib import Path

import listening
import pytest

from sage_cli.training import launch
from sage_cli.training.loopback import LoopbackStore

LOOPBACK, EVERYWHERE = "0100007F", {"00000000", "0" * 32}
WAIT = {"wait_for_workers": False, "timeout": timedelta(seconds=20)}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_store_of_the_loopback_is_reached_there_alone(host):
    store = LoopbackStore(host, 0, is_master=True, **WAIT)
    assert listening.addresses("self") == [LOOPBACK]
    LoopbackStore(host, store.port, is_master=False, **WAIT).set("word", "said")
    assert store.get("word") == b"said"


def test_a_store_for_several_machines_stays_what_it_is():
    store = LoopbackStore("0.0.0.0", 0, is_master=True, **WAIT)
    assert EVERYWHERE & {*listening.addresses("self")}
    del store


@pytest.mark.slow
@pytest.mark.parametrize("file", [None, "ddp"])
def test_launched_processes_and_their_launcher_listen_on_the_loopback(file):
    by = launch.accelerate_configuration(file) if file else None
    done = subprocess.run(
        launch.launch_command(2, ["listening"], by),
        env={
            **launch.LOOPBACK,
            **os.environ,
            "PYTHONPATH": str(Path(listening.__file__).parent),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [LOOPBACK]
