"""One writer per directory, across processes."""

import errno
import fcntl
import os
import re
import subprocess
import sys

import pytest

from sage_cli.errors import StoreError
from sage_cli.store.lock import LAUNCHER, is_held, writer

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
        assert f'"pid": {os.getpid()}' in (tmp_path / ".lock.lease").read_text()
    assert not (tmp_path / ".lock.lease").exists()


def test_the_same_process_is_refused_too_and_the_end_frees_it(tmp_path):
    with writer(tmp_path), pytest.raises(StoreError, match="being written"), writer(tmp_path):
        pass
    with writer(tmp_path):
        pass


@pytest.mark.parametrize(
    "number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.ENOSPC]
)
def test_a_lock_that_cannot_be_had_is_not_somebody_elses(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError) as caught, writer(tmp_path):
        pass
    assert os.strerror(number) in caught.value.cause
    assert "being written" not in caught.value.cause
    with pytest.raises(StoreError, match=os.strerror(number)):
        is_held(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StoreError, match=r"file/run/\.lock can't be locked"),
        writer(tmp_path / "file" / "run"),
    ):
        pass


def test_a_look_tells_and_creates_nothing(tmp_path, holder):
    assert is_held(tmp_path)
    holder.kill()
    holder.wait()
    assert not is_held(tmp_path)
    assert not is_held(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    assert not is_held(tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []


def test_looks_do_not_meet_and_refuse_no_writer(tmp_path):
    with writer(tmp_path):
        pass
    (tmp_path / ".lock").chmod(0o444)  # somebody else's
    with (tmp_path / ".lock").open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)  # another process looks just now
        assert not is_held(tmp_path)


def test_a_cleared_folder_is_let_go(tmp_path):
    folder = tmp_path / "run"
    with writer(folder):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    assert not is_held(folder)


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EPERM, "you may not write there"),
        (errno.EROFS, "read-only"),
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "quota"),
        (errno.ENOLCK, r"no locks \(flock\)"),
        (errno.EOPNOTSUPP, r"no locks \(flock\)"),
        (errno.EIO, "^choose another folder"),
    ],
)
def test_what_to_do_depends_on_what_was_refused(tmp_path, monkeypatch, number, advice):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError) as caught, writer(tmp_path):
        pass
    assert re.search(advice, caught.value.next_step)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_lock_file_that_cannot_be_made_is_not_somebody_elses(tmp_path, monkeypatch, number):
    def refuse(path, *_, **__):
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(StoreError) as caught, writer(tmp_path):
        pass
    assert os.strerror(number) in caught.value.cause
    assert "being written" not in caught.value.cause


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
