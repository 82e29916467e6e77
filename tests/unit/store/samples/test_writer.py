"""One of the writers of a set: shares, parts, errors."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from stored import IDENTITY, completion, damage, put

from sage_cli.errors import StoreError
from sage_cli.store.samples import writer as writer_module
from sage_cli.store.samples.index import load_index
from sage_cli.store.samples.sample_set import SampleSet


@pytest.fixture
def samples(tmp_path: Path) -> SampleSet:
    return SampleSet(tmp_path, IDENTITY)


def test_what_is_missing_is_claimed_in_chunks(
    samples: SampleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "CHUNK", 3)
    put(samples, completion("a", 1))
    with samples.writing({}) as writer:
        shares = []
        while share := writer.claim(["a", "b"], 4):
            shares.append(share)
            for problem, indices in share.items():
                for index in indices:
                    writer.add(completion(problem, index))
    assert shares == [{"a": (0, 2, 3)}, {"b": (0, 1, 2)}, {"b": (3,)}]


def test_two_writers_share_and_each_sees_what_the_other_stored(
    samples: SampleSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "CHUNK", 2)
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


def test_what_was_claimed_and_not_drawn_is_left_out_but_free_for_others(
    samples: SampleSet, tmp_path: Path
) -> None:
    with samples.writing({}) as first, SampleSet(tmp_path, IDENTITY).writing({}) as second:
        assert first.claim(["a"], 2) == {"a": (0, 1)}
        first.add(completion("a", 1))
        assert first.claim(["a"], 3) == {"a": (2,)}
        assert second.claim(["a"], 3) == {"a": (0,)}


@pytest.mark.parametrize("index", [0, 5])
def test_a_sample_twice_or_not_asked_for_is_refused(samples: SampleSet, index: int) -> None:
    with samples.writing({}) as writer:
        writer.claim(["a"], 2)
        writer.add(completion("a", 0))
        with pytest.raises(StoreError, match=f"sample {index} of problem a was sampled twice"):
            writer.add(completion("a", index))


def test_an_error_keeps_what_was_added_and_leftovers_are_removed(samples: SampleSet) -> None:
    samples.folder.mkdir(parents=True)
    leftover = samples.folder / f".part-000000-aa.parquet.{os.getpid()}.tmp"
    leftover.write_bytes(b"half")

    def interrupted() -> None:
        with samples.writing({}) as writer:
            writer.claim(["a"], 3)
            writer.add(completion("a", 0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [row.index for row in samples.completions()] == [0]
    assert not leftover.exists()


def test_parts_are_flushed_by_rows_and_reported_once_stored(
    samples: SampleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "FLUSH_ROWS", 2)
    seen: list[tuple[list[str | None], int]] = []
    with samples.writing(
        {}, lambda rows: seen.append(([r.part for r in rows], len(list(samples.completions()))))
    ) as writer:
        writer.claim(["p"], 5)
        for index in range(5):
            writer.add(completion(index=index))
        assert [held for _, held in seen] == [2, 4]
    assert [held for _, held in seen] == [2, 4, 5]
    names = [part.name for part in samples.inventory().parts]
    assert [parts for parts, _ in seen] == [[names[0]] * 2, [names[1]] * 2, [names[2]]]


def test_parts_are_flushed_by_time(samples: SampleSet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "FLUSH_S", 0.0)
    with samples.writing({}) as writer:
        writer.claim(["p"], 2)
        writer.add(completion())
        assert len(samples.inventory().parts) == 1


def test_a_writer_leaves_the_index_as_it_found_the_set_last(samples: SampleSet) -> None:
    with samples.writing({}) as writer:
        while share := writer.claim(["p"], 2):
            for index in share["p"]:
                writer.add(completion(index=index))
    assert load_index(samples.folder).missing("p", 3) == (2,)


def test_a_damaged_part_is_set_aside_and_claimed_again(samples: SampleSet) -> None:
    torn = put(samples, completion("a", 0), completion("a", 1))
    put(samples, completion("a", 2))
    damage(torn)
    with samples.writing({}) as writer:
        assert writer.claim(["a"], 3) == {"a": (0, 1)}
        assert writer.damaged == (torn.name,)
        assert writer.claim(["a"], 4) == {"a": (3,)}
        assert writer.damaged == (torn.name,)
    assert torn.with_name(f"{torn.name}.damaged").is_file()


def test_a_full_disk_keeps_what_was_stored_before(
    samples: SampleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "FLUSH_ROWS", 2)
    write_bytes = Path.write_bytes
    room = iter([True, False, False])

    def limited(path: Path, content: bytes) -> int:
        if next(room):
            return write_bytes(path, content)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", limited)

    def draw() -> None:
        with samples.writing({}) as writer:
            writer.claim(["p"], 5)
            for index in range(5):
                writer.add(completion(index=index))

    with pytest.raises(StoreError, match="No space left on device"):
        draw()
    assert samples.inventory().missing("p", 5) == (2, 3, 4)
    monkeypatch.undo()
    with samples.writing({}) as writer:
        assert writer.claim(["p"], 5) == {"p": (2, 3, 4)}
