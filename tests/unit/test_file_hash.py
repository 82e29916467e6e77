"""Content hashes are remembered for as long as a file stays the same, and never wrongly."""

import hashlib
import json
import os

import pytest

from sage_cli import file_hash as content
from sage_cli.file_hash import cache_file, file_hash

LARGE = b"w" * (1 << 17)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    content._remembered_in.cache_clear()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(LARGE)
    return path


def fail(_):
    raise AssertionError("the file was read again")


def test_a_file_is_read_once(file, monkeypatch):
    assert file_hash(file) == hashlib.sha256(LARGE).hexdigest()
    monkeypatch.setattr(content, "content_hash", fail)
    assert file_hash(file) == hashlib.sha256(LARGE).hexdigest()
    content._remembered_in.cache_clear()  # as another process
    assert file_hash(file) == hashlib.sha256(LARGE).hexdigest()


def test_a_changed_file_is_read_again(file):
    file_hash(file)
    file.write_bytes(LARGE + b"x")  # another size
    assert file_hash(file) == hashlib.sha256(LARGE + b"x").hexdigest()
    file.write_bytes(LARGE + b"y")  # the same size, another time
    os.utime(file, ns=(1, 1))
    assert file_hash(file) == hashlib.sha256(LARGE + b"y").hexdigest()


def test_small_files_are_not_remembered(tmp_path):
    (tmp_path / "config.json").write_bytes(b"{}")
    assert file_hash(tmp_path / "config.json") == hashlib.sha256(b"{}").hexdigest()
    assert not cache_file().exists()


@pytest.mark.parametrize("torn", ["", "{", "[]", '{"a": 1}', '{"a": [1, 2]}'])
def test_a_torn_cache_is_ignored_and_rebuilt(file, torn):
    cache_file().parent.mkdir(parents=True)
    cache_file().write_text(torn)
    assert file_hash(file) == hashlib.sha256(LARGE).hexdigest()
    assert list(json.loads(cache_file().read_text())) == [str(file.resolve())]


def test_a_cache_that_cannot_be_written_is_done_without(file, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    assert file_hash(file) == hashlib.sha256(LARGE).hexdigest()


def test_what_other_processes_remember_is_kept(file, tmp_path):
    file_hash(file)
    other = tmp_path / "other"
    other.write_bytes(LARGE)
    content._remembered_in.cache_clear()
    file_hash(other)
    assert set(json.loads(cache_file().read_text())) == {str(file.resolve()), str(other.resolve())}


def test_hashes_that_are_computed_at_once_are_all_remembered(tmp_path, monkeypatch):
    files = [tmp_path / f"{number}.safetensors" for number in range(24)]
    for file in files:
        file.write_bytes(LARGE)
    hashes = content.sealed_hashes(tmp_path, files)
    content._remembered_in.cache_clear()  # as another process
    monkeypatch.setattr(content, "content_hash", fail)
    assert content.sealed_hashes(tmp_path, files) == hashes
