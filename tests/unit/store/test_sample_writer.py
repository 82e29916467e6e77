"""The writer of a sample set."""

import errno
import os
from pathlib import Path

import pytest
from stored import IDENTITY, completion

from sage_cli.errors import StoreError
from sage_cli.store import sample_writer
from sage_cli.store.sample_set import SampleSet


def test_two_writers_share_and_each_sees_what_the_other_stored(samples, tmp_path, monkeypatch):
    monkeypatch.setattr(sample_writer, "CHUNK", 2)
    with samples.writing({}) as first, SampleSet(tmp_path, IDENTITY).writing({}) as second:
        assert first.claim(["a"], 5) == {"a": (0, 1)}
        assert second.claim(["a"], 5) == {"a": (2, 3)}
        first.add(completion("a", 0))
        first.add(completion("a", 1))
        assert first.claim(["a"], 5) == {"a": (4,)}
        second.add(completion("a", 2))
        second.add(completion("a", 3))
        first.add(completion("a", 4))
        first.flush()
        assert second.claim(["a"], 5) == {}
    assert sorted(row.index for row in samples.completions()) == [0, 1, 2, 3, 4]


def test_what_was_claimed_and_not_drawn_is_left_out_but_free_for_others(samples, tmp_path):
    with samples.writing({}) as first, SampleSet(tmp_path, IDENTITY).writing({}) as second:
        assert first.claim(["a"], 2) == {"a": (0, 1)}
        first.add(completion("a", 1))
        assert first.claim(["a"], 3) == {"a": (2,)}
        assert second.claim(["a"], 3) == {"a": (0,)}


@pytest.mark.parametrize("index", [0, 5])
def test_a_sample_twice_or_not_asked_for_is_refused(samples, index):
    with samples.writing({}) as writer:
        writer.claim(["a"], 2)
        writer.add(completion("a", 0))
        with pytest.raises(StoreError, match=f"sample {index} of problem a was sampled twice"):
            writer.add(completion("a", index))


def test_an_error_keeps_what_was_added_and_leftovers_are_removed(samples):
    samples.folder.mkdir(parents=True)
    leftover = samples.folder / f".part-000000-aa.parquet.{os.getpid()}.tmp"
    leftover.write_bytes(b"half")

    with pytest.raises(KeyboardInterrupt), samples.writing({}) as writer:  # noqa: PT012
        writer.claim(["a"], 3)
        writer.add(completion("a", 0))
        raise KeyboardInterrupt
    assert [row.index for row in samples.completions()] == [0]
    assert not leftover.exists()


def test_parts_are_flushed_by_rows_and_time_and_reported_once_stored(samples, monkeypatch):
    monkeypatch.setattr(sample_writer, "_FLUSH_ROWS", 2)
    seen = []

    def stored(rows):
        seen.append(([row.part for row in rows], len(list(samples.completions()))))

    with samples.writing({}, stored) as writer:
        writer.claim(["p"], 5)
        for index in range(5):
            writer.add(completion(index=index))
        assert [held for _, held in seen] == [2, 4]
    assert [held for _, held in seen] == [2, 4, 5]
    names = [part.name for part in samples.inventory().parts]
    assert [parts for parts, _ in seen] == [[names[0]] * 2, [names[1]] * 2, [names[2]]]
    monkeypatch.setattr(sample_writer, "FLUSH_S", 0.0)
    with samples.writing({}) as writer:
        writer.claim(["q"], 2)
        writer.add(completion("q"))
        assert len(samples.inventory().parts) == 4


def test_a_full_disk_keeps_what_was_stored_before(samples, monkeypatch):
    monkeypatch.setattr(sample_writer, "_FLUSH_ROWS", 2)
    write_bytes = Path.write_bytes
    room = iter([True, False, False])

    def limited(path, content):
        if next(room):
            return write_bytes(path, content)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", limited)

    full = pytest.raises(StoreError, match="No space left on device")
    with full, samples.writing({}) as writer:
        writer.claim(["p"], 5)
        for index in range(5):
            writer.add(completion(index=index))
    assert samples.inventory().missing("p", 5) == (2, 3, 4)
    monkeypatch.undo()
    with samples.writing({}) as writer:
        assert writer.claim(["p"], 5) == {"p": (2, 3, 4)}
