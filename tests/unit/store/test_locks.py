"""One writer per directory, across processes."""

import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import other_host
import pytest

from sage_cli.errors import StoreError
from sage_cli.store import locks
from sage_cli.store.locks import (
    EXPIRY_S,
    LAUNCHER,
    HeldError,
    Lease,
    driver,
    foreign_holder,
    holder_of,
    is_held,
    locked,
    writer,
)
from sage_cli.store.metrics_file import MetricsFile
from sage_cli.store.storage import require_storage

HOLD = """
import sys
from pathlib import Path
from sage_cli.store.locks import writer
with writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the folder until it is killed or its stdin closes."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_by_name_and_a_killed_one_holds_nothing(tmp_path, holder):
    with pytest.raises(StoreError, match=f"process {holder.pid} on ") as caught, writer(tmp_path):
        pass
    assert str(tmp_path) in caught.value.cause
    holder.kill()
    holder.wait()
    with writer(tmp_path):
        assert f'"pid": {os.getpid()}' in (tmp_path / ".lock.lease").read_text()
    assert not (tmp_path / ".lock.lease").exists()


def test_a_folder_is_one_writers_until_its_end(tmp_path):
    with writer(tmp_path), pytest.raises(StoreError, match="being written"), writer(tmp_path):
        pass
    with writer(tmp_path):
        pass
    with writer(tmp_path):
        pass
    (tmp_path / ".lock").chmod(0o444)  # somebody else's
    with (tmp_path / ".lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)  # another process looks just now
        assert not is_held(tmp_path)
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreError, match=r"file/run/\.lock can't be locked"),
        writer(tmp_path / "file" / "run"),
    ):
        pass
    folder = tmp_path / "run"
    with writer(folder):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    assert not is_held(folder)


@pytest.mark.parametrize(
    ("refusing", "number", "advice"),
    [
        ("fcntl.flock", errno.EPERM, "you may not write there"),
        ("fcntl.flock", errno.EROFS, "read-only"),
        ("fcntl.flock", errno.ENOSPC, "make room"),
        ("fcntl.flock", errno.EDQUOT, "quota"),
        ("fcntl.flock", errno.ENOLCK, r"no locks \(flock\)"),
        ("fcntl.flock", errno.ENOSYS, ""),
        ("fcntl.flock", errno.EOPNOTSUPP, r"no locks \(flock\)"),
        ("fcntl.flock", errno.EIO, "^the disk or the connection to it fails"),
        ("fcntl.flock", errno.EBADMSG, "^choose another folder"),
        ("os.open", errno.EACCES, ""),  # where the file can't be made
        ("os.open", errno.EROFS, ""),
    ],
)
def test_a_lock_that_cannot_be_had_is_not_somebody_elses(
    tmp_path, monkeypatch, refusing, number, advice
):
    def refuse(path, *_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(refusing, refuse)
    with pytest.raises(StoreError) as caught, writer(tmp_path):
        pass
    assert os.strerror(number) in caught.value.cause
    assert "being written" not in caught.value.cause
    assert re.search(advice, caught.value.next_step)
    assert caught.value.exit_code == (75 if number == errno.EIO else 2)
    if refusing == "fcntl.flock":
        with pytest.raises(StoreError, match=os.strerror(number)):
            is_held(tmp_path)


def test_a_look_tells_and_creates_nothing(tmp_path, holder):
    assert is_held(tmp_path)
    holder.kill()
    holder.wait()
    assert not is_held(tmp_path)
    assert not is_held(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    assert not is_held(tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_folder_is_held_by_who_has_others_write_in_it(tmp_path):
    with writer(tmp_path, LAUNCHER):
        assert is_held(tmp_path)
        with writer(tmp_path):  # one of those others
            assert is_held(tmp_path)
        with (
            pytest.raises(StoreError, match="being written by process"),
            writer(tmp_path, LAUNCHER),
        ):
            pass
    assert not is_held(tmp_path)


SIGN = ".lock.lease"


@contextmanager
def on_host(name, folder, order="write"):
    """A process on another host, and the first line that it says."""
    command = [sys.executable, other_host.__file__, str(folder), name, order]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def answer(process):
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def silent(folder, seconds):
    """Let the holder's last heartbeat be so old."""
    then = time.time() - seconds
    os.utime(folder / SIGN, (then, then))


def test_a_holder_on_another_host_is_refused_by_name_and_age(tmp_path):
    with on_host("b", tmp_path) as (other, said):
        assert said == "held"
        assert is_held(tmp_path)
        with pytest.raises(StoreError) as caught, writer(tmp_path):
            pass
        named = rf"written by process {other.pid} on b, since \d{{4}}-.* UTC \(last heartbeat \d s"
        assert re.search(named, caught.value.cause)
        other.stdin.close()
        other.wait()
    assert not is_held(tmp_path)
    with writer(tmp_path), on_host("c", tmp_path, "look") as (_, said):
        assert said.startswith(f"True process {os.getpid()} on ")


def killed_on(host, folder):
    """A process of another host was killed while it held the folder."""
    with on_host(host, folder) as (other, _):
        other.kill()
        other.wait()


def test_a_killed_holder_of_another_host_counts_until_it_was_silent_for_long(tmp_path):
    killed_on("b", tmp_path)
    silent(tmp_path, EXPIRY_S - 5)
    with pytest.raises(StoreError, match=r"on b, .*last heartbeat 2[5-9] s ago"), writer(tmp_path):
        pass
    for seconds in (EXPIRY_S + 1, -3600):  # who died before the clock was set back holds nobody up
        silent(tmp_path, seconds)
        assert not is_held(tmp_path)
        with writer(tmp_path):
            assert json.loads((tmp_path / SIGN).read_text())["pid"] == os.getpid()
        assert not (tmp_path / SIGN).exists()
        killed_on("b", tmp_path)


def test_a_killed_or_taken_over_holder_of_this_host_counts_for_nothing(tmp_path):
    with pytest.MonkeyPatch.context() as patch:  # it can't be asked to leave its file behind
        patch.setattr(Lease, "drop", lambda self: None)
        with writer(tmp_path):
            pass
    assert (tmp_path / SIGN).exists()  # fresh, and nobody has the lock
    assert not is_held(tmp_path)
    with writer(tmp_path):
        assert is_held(tmp_path)
    with writer(tmp_path) as hold:
        (tmp_path / SIGN).unlink()  # as the end of the other one does
        with pytest.raises(StoreError, match="taken over by another process"):
            hold.require()


def test_a_frozen_holder_that_was_taken_over_writes_no_more(tmp_path):
    with on_host("b", tmp_path) as (frozen, _):
        assert answer(frozen) == "written"
        frozen.send_signal(signal.SIGSTOP)
        silent(tmp_path, EXPIRY_S + 1)
        with on_host("c", tmp_path) as (second, said):
            assert said == "held"
            frozen.send_signal(signal.SIGCONT)
            said = answer(frozen)
            assert f"was taken over by process {second.pid} on c" in said
            assert "sent no heartbeat for 30 s" in said
            frozen.wait()
            assert answer(second) == "written"  # whose file the loser has left alone
    records = MetricsFile(tmp_path / "metrics.jsonl").read()
    assert [(record["host"], record["step"]) for record in records] == [("b", 1), ("c", 1)]


@pytest.mark.parametrize("torn", ["", '{"host": "b", "bo', "[]", "process 7 on b", "\xff"])
def test_a_torn_sign_is_somebodys_while_it_is_fresh(tmp_path, torn):
    (tmp_path / ".lock").touch()
    (tmp_path / SIGN).write_bytes(torn.encode("latin-1"))
    assert holder_of(tmp_path) == "another process"
    with pytest.raises(StoreError, match="written by another process"), writer(tmp_path):
        pass
    silent(tmp_path, EXPIRY_S + 1)
    with writer(tmp_path):
        pass


def test_age_is_told_by_the_file_servers_clock(tmp_path, monkeypatch):
    with on_host("b", tmp_path):
        monkeypatch.setattr(time, "time", lambda: 4e9)  # this host's is years ahead
        assert is_held(tmp_path)
        assert list(tmp_path.glob(".*.tmp")) == []


def test_who_may_only_read_looks_by_its_own_clock(tmp_path, monkeypatch):
    with on_host("b", tmp_path):
        opened = Path.open

        def refuse(path, mode="r", *rest, **named):
            if mode != "r" and mode != "rb":
                raise PermissionError(13, "Permission denied", str(path))
            return opened(path, mode, *rest, **named)

        monkeypatch.setattr(Path, "open", refuse)
        assert is_held(tmp_path)
        now_s = time.time()
        monkeypatch.setattr(time, "time", lambda: now_s + 2 * EXPIRY_S)
        assert not is_held(tmp_path)


def test_signs_of_life_go_on_and_follow_a_folder_that_moves(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "HEARTBEAT_S", 0.01)
    folder, moved = tmp_path / "a", tmp_path / "b"
    with writer(folder):
        folder.rename(moved)
        silent(moved, 1000)
        while time.time() - (moved / SIGN).stat().st_mtime > EXPIRY_S:
            time.sleep(0.01)  # a beat that never comes is the test's own time limit
    assert not (moved / SIGN).exists()


def test_of_two_that_take_over_at_once_the_last_one_has_it(tmp_path, monkeypatch):
    sign = tmp_path / SIGN
    sign.write_text("torn")
    silent(tmp_path, EXPIRY_S + 1)
    first, second = Lease(sign), Lease(sign)
    settle = time.sleep

    def overtaken(seconds):
        """While the first waits, the second, which saw the same silence, takes the lock too."""
        monkeypatch.setattr(time, "sleep", settle)
        monkeypatch.setattr(locks, "foreign_holder", lambda _: None)
        second.take()

    monkeypatch.setattr(time, "sleep", overtaken)
    with pytest.raises(HeldError):
        first.take()
    assert not second.lost
    first.drop()
    assert sign.exists()
    second.drop()
    assert not sign.exists()


def test_a_lock_is_waited_for_as_long_as_was_said(tmp_path):
    with on_host("b", tmp_path) as (other, _):
        threading.Timer(0.2, other.stdin.close).start()
        with locked(tmp_path / ".lock", 60):
            assert foreign_holder(tmp_path / SIGN) is None


def test_a_study_has_one_driver_who_is_named_unless_its_sign_is_empty(tmp_path):
    with (
        driver(tmp_path, "tau-rho-1"),
        pytest.raises(StoreError) as caught,
        driver(tmp_path, "tau-rho-1"),
    ):
        pass
    assert re.match(rf"tau-rho-1 is run by process {os.getpid()} on .*, since ", str(caught.value))
    sign = tmp_path / ".driver.lease"
    sign.touch()
    with pytest.raises(StoreError, match="study is run by"), driver(tmp_path, "study"):
        pass  # it may be one that is being written
    old(sign, locks.HEARTBEAT_S + 1)
    with driver(tmp_path, "study"):
        assert json.loads(sign.read_text())["pid"] == os.getpid()


def old(path, seconds=2 * EXPIRY_S):
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


def test_the_next_writer_sweeps_what_killed_ones_left(tmp_path):
    """Signs of life whose locks are free, and old halves of files; nothing else."""
    killed = (
        "from pathlib import Path; import os, sys; from sage_cli.store.locks import *\n"
        "with driver(Path(sys.argv[1]), 'study'), writer(Path(sys.argv[1]), LAUNCHER):\n"
        "    os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", killed, str(tmp_path)], check=False)
    left = [".driver.lease", ".launcher.lease"]
    assert sorted(path.name for path in tmp_path.glob(".*.lease")) == left
    (tmp_path / "tasks").mkdir()
    halves = [tmp_path / ".state.json.0a.tmp", tmp_path / "tasks/.rl-a.json.0b.tmp"]
    for half in (*halves, tmp_path / ".young.tmp", tmp_path / "kept.tmp"):
        half.write_text("half")
    old(tmp_path / "kept.tmp")
    folders = [tmp_path / ".out.0c.tmp", tmp_path / "tasks/.run.old"]  # half-written, half-deleted
    for folder in (*folders, tmp_path / ".growing.0d.tmp"):
        (folder / "model").mkdir(parents=True)
        for part in (folder / "model/half", folder / "model", folder):
            part.touch()
            old(part)
    (tmp_path / ".growing.0d.tmp/model/half").write_text("young")
    for half in halves:
        old(half)
    with writer(tmp_path):
        assert [path.name for path in tmp_path.glob(".*.lease")] == [SIGN]
    assert not any(half.exists() for half in (*halves, *folders))
    assert (tmp_path / ".growing.0d.tmp/model/half").exists()
    assert (tmp_path / ".young.tmp").exists()
    assert (tmp_path / "kept.tmp").exists()


def test_signs_of_the_living_are_left_alone(tmp_path):
    with driver(tmp_path, "study"):
        sign = (tmp_path / ".driver.lease").read_text()
        with writer(tmp_path):
            assert (tmp_path / ".driver.lease").read_text() == sign
    with on_host("b", tmp_path):
        sign = (tmp_path / SIGN).read_text()
        with driver(tmp_path, "study"):
            assert (tmp_path / SIGN).read_text() == sign


def test_a_full_disk_leaves_no_empty_sign(tmp_path, monkeypatch):
    opened = Path.open

    def full(path, mode="r", *rest, **named):
        if mode != "xb":
            return opened(path, mode, *rest, **named)
        path.touch()
        return Path("/dev/full").open("wb", buffering=0)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(StoreError, match="No space left"), driver(tmp_path, "study"):
        pass
    assert not (tmp_path / ".driver.lease").exists()


def test_storage_that_runs_can_be_written_to(tmp_path):
    for folder in (tmp_path, tmp_path / "not" / "yet"):
        assert require_storage(folder).startswith(f"{folder}: ")
    assert list(tmp_path.iterdir()) == []  # neither a lock nor the folder stays behind
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError, match="runs is a file"):
        require_storage(tmp_path / "runs")
    with pytest.raises(StoreError, match="GiB free, and checkpoints may not fit"):
        require_storage(tmp_path, least_free=1 << 62)


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    class Refusing:
        def __init__(self, *_, **__):
            pass

        def acquire(self, timeout):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks, "FileLock", Refusing)
    with pytest.raises(StoreError, match="can't be locked") as refused:
        require_storage(tmp_path)
    assert "has no locks" in refused.value.next_step
