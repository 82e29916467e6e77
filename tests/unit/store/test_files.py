"""A file is wholly there or not there, whatever happens while it is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sage_cli.store.files import private, replacing, write_json, write_text


def test_an_exception_inside_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "config.json"
    write_text(path, "old")
    with pytest.raises(RuntimeError, match="disk"), replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("half of the n")
        raise RuntimeError("disk full")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_until_the_end_readers_see_the_old_file(tmp_path):
    path = tmp_path / "a"
    write_text(path, "old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_a_rename_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a"
    write_text(path, "old")
    monkeypatch.setattr(type(path), "replace", lambda *_: (_ for _ in ()).throw(OSError("gone")))
    with pytest.raises(OSError, match="gone"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_content_is_on_the_disk_before_the_rename(tmp_path, monkeypatch):
    order = []
    fsync = os.fsync
    replace = type(tmp_path).replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), fsync(fd)))
    monkeypatch.setattr(
        type(tmp_path), "replace", lambda *paths: (order.append("rename"), replace(*paths))
    )
    write_text(tmp_path / "a", "text")
    assert order == ["fsync", "rename", "fsync"]  # file, rename, folder


def test_json_is_readable_text_below_new_folders(tmp_path):
    write_json(tmp_path / "new" / "a.json", {"τ": 1, "path": Path("runs")})
    text = (tmp_path / "new" / "a.json").read_text()
    assert text == '{\n  "τ": 1,\n  "path": "runs"\n}\n'


def test_json_that_holds_an_address_is_its_owners_alone(tmp_path):
    """And only as long as it holds one; what others may read the umask says."""
    before = os.umask(0o022)
    try:
        _modes(tmp_path)
    finally:
        os.umask(before)


def _modes(tmp_path):
    path = tmp_path / "config.json"
    for value, others in (({"at": "http://h"}, 0), ({"at": None}, 0o044), ({"at": "a://b"}, 0)):
        write_json(path, value)
        assert path.stat().st_mode & 0o077 == others
    log = tmp_path / "a.log"
    with open(log, "ab", opener=private):
        assert log.stat().st_mode & 0o077 == 0
