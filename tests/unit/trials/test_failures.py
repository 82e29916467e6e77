"""Classes of failures, from what an executor saw, a manifest says and a log shows."""

import pytest

from sage_cli.trials.executors.executor import End, Fate
from sage_cli.trials.failures import (
    LINES,
    Failure,
    Kind,
    all_failed,
    failure,
    last_lines,
    stored_failures,
    write_failures,
)

PANEL = """loading libraries
╭─ error ──────────────────────╮
│ rl.micro_batch 7 doesn't     │
│ divide the 64 completions    │
╰──────────────────────────────╯
"""
TRACEBACK = """Traceback (most recent call last):
  File "x.py", line 1, in <module>
RuntimeError: [enforce fail at alloc_cpu.cpp:121] . DefaultCPUAllocator: can't allocate memory
"""


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("step 1\nstep 2\n")
    return path


def failed(error, reason):
    return {"status": "failed", "error": error, "reason": reason}


def test_what_a_run_says_of_itself(log):
    exited = End(Fate.EXITED, 2)
    diverged = failure(exited, failed("DivergedError", "loss is nan at step 7"), log)
    assert (diverged.kind, diverged.reason) == (Kind.DIVERGED, "loss is nan at step 7")
    assert diverged.lines == ("step 1", "step 2")
    short = failure(exited, failed("OutOfMemoryError", "the GPU's 80 GiB don't hold it"), log)
    assert short.kind is Kind.MEMORY
    other = failure(exited, failed("TrainingError", "the reference is another"), log)
    assert (other.kind, other.reason) == (Kind.ERROR, "the reference is another")


def test_a_refusal_is_read_from_its_panel(log):
    log.write_text(PANEL)
    found = failure(End(Fate.EXITED, 2), {}, log)
    assert found.kind is Kind.REFUSED
    assert found.reason == "rl.micro_batch 7 doesn't divide the 64 completions"


def test_memory_that_a_processor_lacks_is_read_from_the_traceback(log):
    log.write_text(TRACEBACK)
    assert failure(End(Fate.EXITED, 1), failed("RuntimeError", "x"), log).kind is Kind.MEMORY


def test_a_bug_is_an_error_and_its_last_line_the_reason(log):
    log.write_text("Traceback (most recent call last):\nKeyError: 'tau'\n")
    found = failure(End(Fate.EXITED, 1), {}, log)
    assert (found.kind, found.reason) == (Kind.ERROR, "KeyError: 'tau'")


def test_signals_time_limits_and_lost_nodes(log):
    killed = failure(End(Fate.KILLED, -9), {}, log)
    assert killed.kind is Kind.KILLED
    assert killed.reason.startswith("SIGKILL ended it from outside (so does the kernel")
    # a shell says 128 + 15
    assert failure(End(Fate.KILLED, 143), {}, log).reason == "SIGTERM ended it from outside"
    assert failure(End(Fate.LOST), {}, log).kind is Kind.KILLED
    late = failure(End(Fate.TIMEOUT, -15), {"status": "interrupted", "error": None}, log)
    assert (late.kind, late.reason) == (
        Kind.TIMEOUT,
        "it took longer than executor.minutes allows",
    )


def test_only_the_last_lines_are_kept_without_colours_and_empty_ones(log):
    log.write_text("".join(f"\x1b[31mline {i}\x1b[0m\n\n" for i in range(5000)))
    assert last_lines(log) == tuple(f"line {i}" for i in range(5000 - LINES, 5000))


def test_no_log_is_no_lines(tmp_path):
    found = failure(End(Fate.EXITED, 3), {}, tmp_path / "none.log")
    assert (found.lines, found.reason) == ((), "exit code 3")


def test_stored_failures_are_read_back_and_a_torn_file_tells_nothing(tmp_path):
    file = tmp_path / "failures.json"
    assert stored_failures(file) == {}
    write_failures(file, {"rl-a": Failure(Kind.MEMORY, "2 GiB", ("a line",))})
    assert stored_failures(file) == {"rl-a": "out of memory: 2 GiB"}
    file.write_text('{"rl-a": ')
    assert stored_failures(file) == {}


def test_each_reason_is_told_once_where_every_trial_failed(tmp_path):
    error = all_failed(["timeout: late", "timeout: late", "killed: SIGKILL"], tmp_path)
    assert error.cause.splitlines() == ["every trial failed", "timeout: late", "killed: SIGKILL"]
