"""Stores of processes that train together listen where nobody else can reach them."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from torch import distributed

from sage_cli.training import launch
from sage_cli.training.loopback import LoopbackStore

LOOPBACK, EVERYWHERE = "0100007F", {"00000000", "0" * 32}
WAIT = {"wait_for_workers": False, "timeout": timedelta(seconds=20)}


def addresses(*processes):
    """Return the addresses in hexadecimal digits on which processes listen for TCP."""
    links = [link for number in processes for link in Path(f"/proc/{number}/fd").iterdir()]
    sockets = {str(link.readlink())[8:-1] for link in links if link.is_symlink()}
    tables = (Path(f"/proc/net/{table}").read_text().splitlines() for table in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table[1:]]
    return sorted({row[1].split(":")[0] for row in rows if row[3] == "0A" and row[9] in sockets})


def meet():
    """In a launched process: meet the others, and print where they and their launcher listen."""
    distributed.init_process_group("gloo")
    numbers = [None] * distributed.get_world_size()
    distributed.all_gather_object(numbers, os.getpid())
    if distributed.get_rank() == 0:
        sys.stdout.write(json.dumps(addresses(os.getppid(), *numbers)) + "\n")
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_store_of_the_loopback_is_reached_there_alone(host):
    store = LoopbackStore(host, 0, is_master=True, **WAIT)
    assert addresses("self") == [LOOPBACK]
    LoopbackStore(host, store.port, is_master=False, **WAIT).set("word", "said")
    assert store.get("word") == b"said"


def test_a_store_for_several_machines_stays_what_it_is():
    store = LoopbackStore("0.0.0.0", 0, is_master=True, **WAIT)
    assert EVERYWHERE & {*addresses("self")}
    del store


@pytest.mark.slow
@pytest.mark.parametrize("file", [None, "ddp"])
def test_launched_processes_and_their_launcher_listen_on_the_loopback(file):
    by = launch.accelerate_configuration(file) if file else None
    done = subprocess.run(
        launch.launch_command(2, [Path(__file__).stem], by),
        env={
            **launch.LOOPBACK,
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [LOOPBACK]


if __name__ == "__main__":
    meet()
