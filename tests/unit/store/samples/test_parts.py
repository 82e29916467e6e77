"""Parts: checksums in their names, and files that are no parts."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import completion

from sage_cli.errors import StoreError
from sage_cli.store.samples.parts import (
    DamagedPartError,
    list_parts,
    name_strangers,
    read_part,
    write_part,
)

WRITER = "0123abcd"


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_any_altered_or_cut_part_is_detected(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("part")
    part = write_part(folder, WRITER, 0, [completion(index=i) for i in range(5)], {})
    content = bytearray(part.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[position:]
    part.write_bytes(bytes(content))
    with pytest.raises(DamagedPartError, match=part.name):
        read_part(part)


def test_parts_are_listed_by_number_whoever_wrote_them(tmp_path: Path) -> None:
    written = [
        write_part(tmp_path, writer, number, [completion(index=i)], {})
        for i, (writer, number) in enumerate([("ffffffff", 0), ("00000000", 1), ("ffffffff", 2)])
    ]
    assert [part.name for part in list_parts(tmp_path)] == [path.name for path in written]


def test_a_file_without_a_writer_in_its_name_is_no_part(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written = write_part(tmp_path, WRITER, 3, [completion("a", 0)], {})
    former = written.rename(tmp_path / written.name.replace(f"{WRITER}-", ""))
    assert list_parts(tmp_path) == []
    name_strangers(tmp_path, frozenset())
    assert f"{former} is not a part of the sample set" in caplog.text


def test_a_full_disk_is_a_cause_with_a_next_step_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device") as caught:
        write_part(tmp_path, WRITER, 0, [completion()], {})
    assert "is kept" in str(caught.value.next_step)
    assert list(tmp_path.iterdir()) == []
