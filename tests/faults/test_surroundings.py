"""Clocks that jump, a disk that is full, a host that falls silent: nothing is lost or wrong.

Real processes; what they leave is compared with an undisturbed run's.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import other_host
import pytest
from sweep_lab import SMALL

from sage_cli.store.locks import EXPIRY_S, writer
from sage_cli.store.metrics_file import MetricsFile

pytestmark = pytest.mark.slow
RL = (
    "rl",
    "--algo",
    "dapo",
    "--guide",
    "branch",
    "--preset",
    "tiny",
    "--preset",
    "small.yaml",
    "--set",
    "tracking.rollouts=all",
)
JUMPING = """
import time

def offset(began=time.monotonic()):
    '''A day back, none and a day ahead in turns, each for a second.'''
    return 86400 * (int(time.monotonic() - began) % 3 - 1)

real, real_ns = time.time, time.time_ns
time.time = lambda: real() + offset()
time.time_ns = lambda: real_ns() + offset() * 10**9
"""


def train(folder, program, root="runs", **environment):
    """Type `sage rl`; return its exit code and what it said."""
    (folder / "small.yaml").write_text(SMALL)
    done = subprocess.run(
        [*program, *RL, "--runs", str(root)],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
        check=False,
    )
    return done.returncode, " ".join(done.stderr.replace("│", " ").split())


def results(root):
    """Weights, rollouts and records of each run, without times."""
    found = {}
    for run in sorted(root.glob("*-*")):
        if not (run / "manifest.json").exists():
            continue
        assert json.loads((run / "manifest.json").read_text())["status"] == "finished"
        for file in ("model/model.safetensors", "rollouts.jsonl"):
            if (run / file).exists():
                content = (run / file).read_bytes()
                found[run.name, file] = hashlib.sha256(content).hexdigest()
        records = MetricsFile(run / "metrics.jsonl").read()
        found[run.name] = [
            {key: value for key, value in record.items() if not key.startswith(("time", "mem"))}
            for record in records
        ]
    return found


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, warm):
    folder = tmp_path_factory.mktemp("undisturbed")
    code, said = train(folder, [warm.sage])
    assert code == 0, said
    return folder / "runs"


def test_a_training_under_a_clock_that_jumps_by_a_day_is_the_same(undisturbed, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(JUMPING)
    paths = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    program = [sys.executable, "-m", "sage_cli"]
    code, said = train(tmp_path, program, PYTHONPATH=paths)
    assert code == 0, said
    assert results(tmp_path / "runs") == results(undisturbed)
    for manifest in (tmp_path / "runs").glob("*/manifest.json"):
        assert 0 < json.loads(manifest.read_text())["seconds"] < 3600


@contextmanager
def disk(folder, kb):
    """A file system of so many kilobytes, which another size can be given; skips without rights."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kb}k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield lambda size: subprocess.run(
            ["mount", "-o", f"remount,size={size}k", str(folder)], check=True
        )
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_full_again_and_again_costs_nothing(undisturbed, tmp_path, warm):
    """It has room for a third of the runs, then for two thirds, then for all."""
    whole_kb = sum(file.stat().st_size for file in undisturbed.rglob("*")) // 1024
    with disk(tmp_path / "disk", whole_kb // 3) as give:
        root = tmp_path / "disk" / "runs"
        for size in (None, whole_kb * 2 // 3):
            if size is not None:
                give(size)
            code, said = train(tmp_path, [warm.sage], root)
            assert code == 2, said
            assert re.search("No space left on device|the disk of .* is full", said), said
            assert re.search("the same command( again|, which resumes)", said), said
        give(whole_kb * 8)
        code, said = train(tmp_path, [warm.sage], root)
        assert code == 0, said
        assert results(root) == results(undisturbed)


def test_a_host_that_falls_silent_is_replaced_and_writes_no_more_when_it_wakes(tmp_path):
    """In real time: no clock is set, and the kernel's locks don't reach from host to host."""

    def on(host):
        command = [sys.executable, other_host.__file__, str(tmp_path), host, "write"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return process, process.stdout.readline().strip()

    def write(process):
        process.stdin.write("\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    first, said = on("a")
    assert (said, write(first)) == ("held", "written")
    second, said = on("b")
    assert f"is being written by process {first.pid} on a" in said
    first.send_signal(signal.SIGSTOP)
    time.sleep(EXPIRY_S + 2)
    third, said = on("b")
    assert (said, write(third)) == ("held", "written")
    first.send_signal(signal.SIGCONT)
    assert f"was taken over by process {third.pid} on b" in write(first)
    assert write(third) == "written"
    for process in (first, second, third):
        process.stdin.close()
        process.wait(30)
    records = MetricsFile(tmp_path / "metrics.jsonl").read()
    assert [(row["host"], row["step"]) for row in records] == [("a", 1), ("b", 1), ("b", 2)]
    with writer(tmp_path):
        assert list(Path(tmp_path).glob(".*.tmp")) == []
