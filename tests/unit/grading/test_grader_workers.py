"""Workers that are stopped, killed, bounded and forked."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from sage_cli.grading import Grader
from sage_cli.grading.grader import WorkerProcess


def surd(number):
    """Equal expressions; only algebra reads what is rounded down."""
    answer = rf"<SOLUTION>\lfloor x+2\sqrt{{{number}}} \rfloor</SOLUTION>"
    return rf"\lfloor x+\sqrt{{{4 * number}}} \rfloor", answer


SURD = surd(113)
ENDLESS = r"x^{x^{" * 30 + "x" + "}}" * 30


@pytest.fixture(scope="module")
def harmed():
    """A grader whose workers are stopped and killed here; each test finds it with one at least."""
    with Grader(workers=2, timeout_s=2) as grader:
        yield grader


@pytest.fixture
def running(harmed):
    """The grader to harm, with a worker that has just answered."""
    harmed._known.clear()
    assert harmed.grade(*SURD).status == "right"
    return harmed


def tagged(answer):
    return f"<SOLUTION>{answer}</SOLUTION>"


def test_time_is_bounded_and_the_next_grade_is_ordinary(running):
    pairs = [
        ("x^2+1", tagged(ENDLESS)),
        SURD,
        ("x^2+1", tagged("(x+1)^{10^{9}}")),
        ("x^2+1", tagged("((9!)!)!x")),
        ("x^2+1", tagged("9.5^{9.5^{9.5^{9.5}}}x")),
        SURD,
    ]
    began = time.monotonic()
    statuses = [one.status for one in running.grade_many(pairs)]
    # four of at most 3 s each on two workers, and workers to replace on a busy machine
    assert time.monotonic() - began < 60
    assert statuses[1] == statuses[5] == "right"
    assert set(statuses) - {"right"} <= {"timeout", "error", "wrong"}
    assert statuses[0] == "timeout"
    assert running.grade(*surd(2)).status == "right"


def test_a_gold_is_given_up_when_its_answers_keep_timing_out(monkeypatch):
    sent = []

    def send(worker, number, task, timeout_s):
        sent.append(task["answer"])
        original(worker, number, task, timeout_s)

    original = WorkerProcess.send
    monkeypatch.setattr(WorkerProcess, "send", send)
    endless = [("x^2+1", tagged(f"{ENDLESS}+{number}")) for number in range(12)]
    with Grader(workers=1, timeout_s=1) as grader:
        grades = grader.grade_many([*endless, SURD])
        assert [grade.status for grade in grades] == ["timeout"] * 12 + ["right"]
        assert len(sent) == 5
        began = time.monotonic()
        assert grader.grade("x^2+1", tagged(ENDLESS)).status == "timeout"
        assert time.monotonic() - began < 30  # nothing is under way that a call could wait for
        assert grader.grade("x^2+1", tagged("1+x^2")).status == "right"  # needs no worker
        assert len(sent) == 5


def test_a_worker_that_ignores_its_alarm_is_killed(running):
    """As under gmpy2, whose arithmetic doesn't return to Python: the processes are stopped here."""
    stopped = running.pool.pids
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    assert running.grade(*surd(2)).status == "timeout"
    assert set(stopped) - set(running.pool.pids)
    for pid in set(stopped) & set(running.pool.pids):
        os.kill(pid, signal.SIGCONT)
    assert running.grade(*surd(3)).status == "right"


def test_a_worker_that_dies_is_replaced(running):
    for pid in running.pool.pids:
        os.kill(pid, signal.SIGKILL)
    statuses = [running.grade(*surd(number)).status for number in (2, 3, 5)]
    assert set(statuses[:2]) <= {"right", "error"}  # at most one for each that was killed
    assert statuses[2] == "right"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_s_growth_is_bounded():
    with Grader(workers=1, timeout_s=1, memory_mb=200) as grader:
        grader.grade(*SURD)
        (pid,) = grader.pool.pids
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
        limit = next(int(line.split()[3]) for line in lines if line.startswith("Max address"))
        assert limit / 2**20 <= memory_mb(pid, "VmSize") + 200
        grades = grader.grade_many(
            [("x^2+1", tagged("9^{9^{9^{9}}}x")), ("x^2+1", tagged("x^{10^{10^{10}}}"))]
        )
        assert "right" not in {one.status for one in grades}
        assert all(memory_mb(pid, "VmPeak") <= limit / 2**20 for pid in grader.pool.pids)


def memory_mb(pid, field):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field + ":"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_leaves_its_parent_s_workers_alone(running):
    pids = running.pool.pids
    child = os.fork()
    if child == 0:
        right = running.grade(*surd(2)).status == "right"
        own = not set(running.pool.pids) & set(pids)
        running.close()
        os._exit(0 if right and own else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert running.grade(*surd(3)).status == "right"
    assert running.pool.pids == pids


def test_workers_end_with_the_grader(running):
    pids = running.pool.pids
    assert pids
    running.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("interpreter", ["/bin/false", "/nowhere/python"])
def test_workers_that_cannot_start_are_errors(monkeypatch, interpreter):
    monkeypatch.setattr(sys, "executable", interpreter)
    with Grader(workers=1, timeout_s=60) as grader:
        assert grader.grade(*SURD).status == "error"


def test_a_worker_finds_the_package_where_it_is_not_installed():
    worker = WorkerProcess(1024, "math", "strict")
    try:
        environment = Path(f"/proc/{worker.pid}/environ").read_text().split("\0")
    finally:
        worker.kill()
    (path,) = [line for line in environment if line.startswith("PYTHONPATH=")]
    first = path.removeprefix("PYTHONPATH=").split(os.pathsep)[0]
    assert (Path(first) / "sage_cli/grading/worker.py").is_file()
