"""Files that are whole or absent: text, JSON objects, folders; records of steps, read when torn."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sage_cli.errors import StoreError
from sage_cli.store.files import private, replacing, replacing_folder, write_text
from sage_cli.store.json_files import (
    CorruptFileError,
    json_text,
    read_object,
    read_stored,
    write_json,
    write_object,
)
from sage_cli.store.metrics_file import END_BYTES, MetricsFile


def test_an_exception_inside_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "config.json"
    write_text(path, "old")
    with pytest.raises(RuntimeError, match="disk"), replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("half of the n")
        raise RuntimeError("disk full")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"  # readers see the old file until the end
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


def test_json_that_holds_an_address_is_its_owners_alone(tmp_path):
    """And only as long as it holds one; what others may read the umask says."""
    before, path = os.umask(0o022), tmp_path / "config.json"
    try:
        for value, others in (({"at": "http://h"}, 0), ({"at": None}, 0o044), ({"at": "a://b"}, 0)):
            write_json(path, value)
            assert path.stat().st_mode & 0o077 == others
        with open(tmp_path / "a.log", "ab", opener=private):
            assert (tmp_path / "a.log").stat().st_mode & 0o077 == 0
    finally:
        os.umask(before)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_whole_and_replaces_the_old_one(tmp_path):
    with replacing_folder(tmp_path / "deep" / "new") as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "file").write_text("x")
        assert not (tmp_path / "deep" / "new").exists()
    assert (tmp_path / "deep" / "new" / "inner" / "file").read_text() == "x"
    assert names(tmp_path / "deep") == ["new"]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_text("old")
    with replacing_folder(tmp_path / "a") as temporary:
        (temporary / "new").write_text("new")
        assert (tmp_path / "a" / "old").read_text() == "old"
    assert names(tmp_path / "a") == ["new"]
    assert names(tmp_path) == ["a", "deep"]


def test_an_error_leaves_the_old_folder_and_nothing_beside(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "old").write_text("old")
    folder = replacing_folder(tmp_path / "a")
    with pytest.raises(OSError, match="disk"), folder as temporary:  # noqa: PT012
        (temporary / "new").write_text("half")
        raise OSError("disk full")
    assert names(tmp_path / "a") == ["old"]
    assert names(tmp_path) == ["a"]


def test_only_names_that_sage_gives_are_swept(tmp_path):
    left, users = tmp_path / ".a.0123abcd.old", tmp_path / ".a.settings.old"
    for path in (left, users):
        path.write_text("")
        os.utime(path, (1, 1))
    with replacing_folder(tmp_path / "a"):
        pass
    assert names(tmp_path) == [".a.settings.old", "a"]


def test_a_link_keeps_pointing_to_the_folder_it_named(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "old").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with replacing_folder(tmp_path / "link") as temporary:
        (temporary / "new").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real") == ["new"]
    assert names(tmp_path) == ["link", "real"]


def test_a_file_is_whole_or_absent_and_json_is_readable_below_new_folders(tmp_path):
    (tmp_path / "a.json").write_text('{"τ": 0.5}', encoding="utf-8")
    assert read_object(tmp_path / "a.json", "mend it") == {"τ": 0.5}
    with pytest.raises(FileNotFoundError):
        read_object(tmp_path / "b.json", "mend it")
    write_json(tmp_path / "new" / "a.json", {"τ": 1, "path": Path("runs")})
    text = (tmp_path / "new" / "a.json").read_text()
    assert text == '{\n  "τ": 1,\n  "path": "runs"\n}\n'


@pytest.mark.parametrize("torn", [b"", b'{"a": 1', b"[1]", b'"text"', b"\xff", b"[" * 10**5])
def test_a_torn_file_is_named_with_what_to_do(tmp_path, torn):
    (tmp_path / "a.json").write_bytes(torn)
    with pytest.raises(StoreError, match=r"a\.json is corrupt or was edited: ") as caught:
        read_object(tmp_path / "a.json", "mend it")
    assert caught.value.next_step == "mend it"


def strictly(text):
    """As a reader that follows the standard: Python's own takes NaN without a word."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_what_json_says_of_numbers():
    value = {"a": math.nan, "b": [1.5, (math.nan, True)], "c": {"d": math.inf, "e": -math.inf}}
    assert strictly(json_text(value)) == {
        "a": None,
        "b": [1.5, [None, True]],
        "c": {"d": "inf", "e": "-inf"},
    }
    value = {"pass@k": np.array([0.1 + 0.2, math.nan]), "n": np.int64(3), "x": np.float32(0.5)}
    assert strictly(json_text(value)) == {
        "pass@k": [0.30000000000000004, None],
        "n": 3,
        "x": 0.5,
    }
    assert json_text({"τ": Path("runs")}) == '{\n  "τ": "runs"\n}\n'


@pytest.fixture
def metrics(tmp_path):
    file = MetricsFile(tmp_path / "run" / "metrics.jsonl", {"step": int})
    for step in (1, 2, 3):
        file.append({"step": step, "loss": step / 10})
    return file


def steps(file):
    return [record["step"] for record in file.read()]


def test_records_come_back_to_the_last_digit_and_by_step(metrics):
    undefined = {"nothing": math.nan, "rows": [{"much": math.inf}], "missing": None}
    metrics.append({"step": 4, "loss": 0.1 + 0.2, **undefined})
    last = metrics.read()[-1]
    assert last["loss"] == 0.30000000000000004
    # JSON has no NaN, and strict readers refuse a file for one
    assert (last["nothing"], last["rows"], last["missing"]) == (None, [{"much": None}], None)
    assert "NaN" not in metrics.path.read_text()
    metrics.append({"step": 5, "row": 1})
    metrics.append({"step": 5, "row": 2})
    assert metrics.last(5) == [{"step": 5, "row": 1}, {"step": 5, "row": 2}]
    assert metrics.last(6) == []  # it wrote none
    absent = MetricsFile(metrics.path.with_name("absent.jsonl"))
    absent.rewind(3)
    assert (absent.read(), absent.last(4), absent.latest()) == ([], [], {})
    assert not absent.path.exists()


@pytest.mark.parametrize(("step", "left"), [(0, []), (2, [1, 2]), (9, [1, 2, 3])])
def test_rewind_forgets_what_comes_after(metrics, step, left):
    metrics.rewind(step)
    assert steps(metrics) == left
    metrics.append({"step": 7})
    assert steps(metrics) == [*left, 7]


def test_whoever_follows_the_file_goes_on_when_nothing_is_forgotten(metrics):
    with metrics.path.open() as followed:
        assert len(followed.readlines()) == 3
        metrics.rewind(3)
        metrics.append({"step": 4})
        assert followed.readlines() == ['{"step": 4}\n']


def test_a_torn_last_line_is_left_out_and_rewinding_removes_it(metrics):
    with metrics.path.open("a") as handle:
        handle.write('{"step": 4, "lo')
    assert steps(metrics) == [1, 2, 3]
    metrics.rewind(3)
    metrics.append({"step": 4})
    assert steps(metrics) == [1, 2, 3, 4]


DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "torn", [b'{"step": 2, "lo', b"", b"\xff\xfe", b"[2]", b'{"loss": 0.2}', b'{"step": "2"}', DEEP]
)
def test_whole_records_count_and_a_torn_line_is_named_once(metrics, caplog, torn):
    first, _, third = metrics.path.read_bytes().splitlines()
    metrics.path.write_bytes(b"\n".join([first, torn, third]) + b"\n")
    assert steps(metrics) == steps(metrics) == [1, 3]
    assert [record["step"] for record in metrics.last(3)] == [3]
    (said,) = caplog.messages
    assert said == f"{metrics.path} is corrupt or was edited: line 2 is left out"
    metrics.rewind(3)
    assert metrics.path.read_bytes() == b"\n".join([first, third]) + b"\n"


def test_of_many_torn_lines_the_first_are_named(metrics, caplog):
    metrics.path.write_bytes(b"torn\n" * 7 + b'{"step": 8}')  # an editor left out the last end
    assert steps(metrics) == [8]
    assert caplog.messages[0].endswith("edited: lines 1, 2, 3, 4, 5, ... are left out")


@given(st.lists(st.binary(max_size=30) | st.just(b'{"step": 1}'), max_size=6))
def test_no_content_of_the_file_ends_in_an_error(tmp_path_factory, lines):
    file = MetricsFile(tmp_path_factory.mktemp("any") / "metrics.jsonl", {"step": int})
    file.path.write_bytes(b"\n".join(lines))
    assert set(steps(file)) <= {1}
    assert len(file.last(1)) <= len(file.read())
    file.rewind(0)
    assert file.path.read_bytes() == b""


@pytest.mark.parametrize("torn", [b"", b'{"step": 9', b'{"of": 1}\n' * 3])
def test_the_latest_record_of_a_long_file_is_that_of_all_its_lines(tmp_path, torn):
    file = MetricsFile(tmp_path / "metrics.jsonl", {"step": int})
    lines = [b'{"step": %d, "text": "%s"}\n' % (step, b"x" * 1_000) for step in range(40)]
    file.path.write_bytes(b"".join(lines) + torn)
    assert file.path.stat().st_size > 2 * END_BYTES
    assert file.latest()["step"] == 39
    # no whole line in the end of the file: the one before it counts
    file.path.write_bytes(lines[0] + b"x" * 2 * END_BYTES)
    assert file.latest()["step"] == 0


def test_a_file_is_read_once_until_it_is_replaced_and_anew_while_it_is_young(tmp_path):
    file = tmp_path / "manifest.json"

    def aged(status):
        write_object(file, {"status": status})
        os.utime(file, (1e9, 1e9))

    aged("running")
    first = read_stored(file, "")
    assert read_stored(file, "") is first  # not read again
    aged("stopped")  # of the same size and time, in another file
    assert read_stored(file, "") == {"status": "stopped"}
    write_object(file, {"status": "running"})  # two writes in one tick of the clock look alike
    young = read_stored(file, "")
    assert read_stored(file, "") == young
    assert read_stored(file, "") is not young
    aged("stopped")
    file.write_text(file.read_text().replace("stopped", "started"))  # in place, by hand
    with pytest.raises(CorruptFileError, match="corrupt"):
        read_stored(file, "")
    file.unlink()
    with pytest.raises(FileNotFoundError):
        read_stored(file, "")
