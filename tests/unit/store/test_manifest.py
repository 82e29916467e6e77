"""Manifests: the surroundings that they record, tested versions, and storage."""

from __future__ import annotations

import errno
import os

import pytest

from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.store import locks, manifest
from sage_cli.store.manifest import file_system, require_storage, require_tested_versions


def test_a_folder_that_is_there_and_one_that_is_not_yet(tmp_path):
    for folder in (tmp_path, tmp_path / "not" / "yet"):
        assert require_storage(folder).startswith(f"{folder}: ")
    assert list(tmp_path.iterdir()) == []  # neither a lock nor the folder stays behind


def test_a_file_in_its_place(tmp_path):
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError, match="runs is a file"):
        require_storage(tmp_path / "runs")


def test_too_little_room(tmp_path):
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


def test_the_deepest_mount_says_which_file_system_it_is(tmp_path):
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/sda / ext4 rw 0 0\nserver:/x {tmp_path} nfs4 rw 0 0\ntmpfs /elsewhere tmpfs rw 0 0\n"
    )
    assert file_system(tmp_path / "runs", mounts) == "nfs4"
    assert file_system(tmp_path.parent, mounts) == "ext4"
    assert file_system(tmp_path, tmp_path / "absent") is None


@pytest.fixture
def asked(monkeypatch):
    """What a distribution asks for, and what is installed."""

    def set_(needs, installed):
        monkeypatch.setattr(manifest, "requires", lambda _: needs)
        monkeypatch.setattr(manifest, "_installed", installed.get)

    return set_


def test_a_build_for_cpus_is_of_the_tested_version(asked):
    asked(["torch==2.13.0", "numpy>=2"], {"torch": "2.13.0+cpu", "numpy": "2.4.1"})
    assert require_tested_versions() == "torch 2.13.0+cpu"


def test_an_extra_counts_where_it_is_installed(asked):
    needs = ["torch==2.13.0", "vllm==0.31.0; extra == 'vllm'"]
    asked(needs, {"torch": "2.13.0"})
    assert require_tested_versions() == "torch 2.13.0"
    asked(needs, {"torch": "2.13.0", "vllm": "0.32.0"})
    with pytest.raises(ConfigurationError, match=r"^vllm 0.32.0 \(tested: ==0.31.0\)$"):
        require_tested_versions()


def test_what_is_missing_is_named_beside_what_is_too_new(asked):
    asked(["trl==1.16.0", "peft~=0.21"], {"trl": "1.17.0"})
    with pytest.raises(ConfigurationError, match=r"trl 1.17.0 .*, peft is missing") as refused:
        require_tested_versions()
    assert "constraints.txt" in refused.value.next_step


def test_a_distribution_that_is_not_installed():
    with pytest.raises(ConfigurationError, match="no-such-distribution is not installed"):
        require_tested_versions("no-such-distribution")
