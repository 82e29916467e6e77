"""Storage that runs can be written to."""

import errno
import os

import pytest

from sage_cli.errors import StoreError
from sage_cli.store import locks
from sage_cli.store.manifest import require_storage


def test_a_folder_that_is_there_and_one_that_is_not_yet(tmp_path):
    for folder in (tmp_path, tmp_path / "not" / "yet"):
        assert require_storage(folder).startswith(f"{folder}: ")
    assert list(tmp_path.iterdir()) == []  # neither a lock nor the folder stays behind


def test_storage_that_can_not_be_written_to(tmp_path):
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
