"""Warm processes are processes: what they are told, how they end, and that they end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ASLEEP = """
import json, os, sys, time
from pathlib import Path

about = {
    "process": os.getpid(),
    "words": sys.argv[1:],
    "folder": str(Path.cwd()),
    "said": os.environ.get("SAID"),
    "torch": "torch" in sys.modules,
}
print(json.dumps(about), flush=True)
time.sleep(600)
"""
pytestmark = pytest.mark.slow


@pytest.fixture
def start(warm, tmp_path):
    """Start one that sleeps; its client, and what it says of itself."""
    started = []
    program = tmp_path / "asleep.py"
    program.write_text(ASLEEP)

    def begin():
        client = subprocess.Popen(
            [warm.python, str(program), "some", "words"],
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "SAID": "by the client"},
        )
        started.append(client)
        assert client.stdout is not None
        return client, json.loads(client.stdout.readline())

    yield begin
    for client in started:
        client.kill()
        client.communicate()


def test_it_is_told_what_its_client_is_and_its_client_ends_as_it_does(start, tmp_path):
    client, told = start()
    process = told.pop("process")
    assert process != client.pid
    assert told == {
        "words": ["some", "words"],
        "folder": str(tmp_path),
        "said": "by the client",
        "torch": True,
    }
    os.kill(process, signal.SIGKILL)
    client.communicate(timeout=60)
    assert client.returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_its_client(start, number):
    client, told = start()
    client.send_signal(number)
    client.communicate(timeout=60)  # its output ends when both are dead
    assert client.returncode == -number
    deadline = time.monotonic() + 60
    while Path(f"/proc/{told['process']}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_server_outlives_a_client_that_dies_as_its_command_ends(start):
    client, told = start()
    for process in (client.pid, told["process"]):
        os.kill(process, signal.SIGKILL)
    _, told = start()
    assert told["torch"]


def test_the_server_ends_when_its_owner_is_gone(tmp_path):
    owner = subprocess.Popen(["true"])
    owner.wait()
    program = f"import warm_server; print(warm_server.next_command('socket', {owner.pid}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "None\n"


def test_a_command_prints_and_ends_as_one_that_begins_cold(warm, tmp_path):
    def typed(*words):
        commands = ([warm.sage, *words], [*warm.driver, *words])
        done = [
            subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
            for words in commands
        ]
        return [(one.returncode, one.stdout, one.stderr) for one in done]

    for words in (("runs", "list", "--json"), ("runs", "show", "nobody")):
        one, other = typed(*words)
        assert one == other
