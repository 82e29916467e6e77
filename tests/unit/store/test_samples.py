"""Sample sets: parts, checksums, inventory, the one writer."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sage_cli.errors import StoreError
from sage_cli.store import samples as samples_module
from sage_cli.store.completion import Completion
from sage_cli.store.parts import read_part, write_part
from sage_cli.store.samples import Inventory, SampleIdentity, SampleSet

IDENTITY = SampleIdentity(
    model="m" * 16, template="t" * 12, sampling={"temperature": 1.0, "seed": 0}
)


def completion(problem: str = "p", index: int = 0, text: str = "1+1=2") -> Completion:
    return Completion(problem, index, 0, text, len(text), "stop")


def put(samples: SampleSet, *rows: Completion) -> None:
    with samples.writing({"engine": "test"}) as writer:
        for row in rows:
            writer.add(row)


def test_rows_come_back_as_they_went_in(tmp_path: Path) -> None:
    rows = [
        completion("a", 0, "π ≈ 3.14\n"),
        replace(completion("a", 3, ""), finish_reason="length"),
        completion("b", 1, "x" * 10_000),
    ]
    samples = SampleSet(tmp_path, IDENTITY)
    put(samples, *rows)
    assert list(samples.completions()) == rows
    assert list(samples.completions(["a"], n=3)) == rows[:1]
    assert not list(samples.completions([]))


def test_inventory_knows_what_is_missing(tmp_path: Path) -> None:
    samples = SampleSet(tmp_path, IDENTITY)
    put(samples, completion("a", 0), completion("a", 2), completion("a", 300))
    put(samples, completion("b", 1))
    inventory = samples.inventory()
    assert inventory.missing("a", 4) == (1, 3)
    assert inventory.missing("b", 3) == (0, 2)
    assert inventory.missing("c", 2) == (0, 1)


@given(st.sets(st.integers(0, 400)), st.integers(1, 300))
def test_missing_is_the_complement_below_n(held: set[int], n: int) -> None:
    inventory = Inventory()
    for index in held:
        assert inventory.add("p", index)
        assert not inventory.add("p", index)
    assert set(inventory.missing("p", n)) == set(range(n)) - held


def test_the_key_depends_on_every_part_of_the_identity() -> None:
    others = [
        replace(IDENTITY, model="n" * 16),
        replace(IDENTITY, template="u" * 12),
        replace(IDENTITY, sampling={"temperature": 0.9, "seed": 0}),
        replace(IDENTITY, sampling={"temperature": 1.0, "seed": 1}),
    ]
    assert len({IDENTITY.key, *(other.key for other in others)}) == 5
    reordered = replace(IDENTITY, sampling={"seed": 0, "temperature": 1.0})
    assert reordered.key == IDENTITY.key


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_any_altered_or_cut_part_is_detected(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("part")
    part = write_part(folder, 0, [completion(index=i) for i in range(5)], {})
    content = bytearray(part.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[position:]
    part.write_bytes(bytes(content))
    with pytest.raises(StoreError, match=part.name):
        read_part(part)


def test_a_damaged_part_is_named_set_aside_and_counts_as_missing(tmp_path: Path) -> None:
    samples = SampleSet(tmp_path, IDENTITY)
    put(samples, completion("a", 0), completion("a", 1))
    put(samples, completion("a", 2))
    torn = samples.parts()[0]
    torn.write_bytes(torn.read_bytes()[:-1])
    assert samples.inventory().damaged == (torn.name,)
    assert samples.inventory().missing("a", 3) == (0, 1)
    with pytest.raises(StoreError, match=torn.name):
        list(samples.completions())
    put(samples, completion("a", 0), completion("a", 1))
    assert (samples.folder / f"{torn.name}.damaged").is_file()
    assert [row.index for row in samples.completions()] == [2, 0, 1]
    assert samples.inventory().damaged == ()


def test_a_second_writer_is_refused_by_name(tmp_path: Path) -> None:
    samples = SampleSet(tmp_path, IDENTITY)
    script = (
        "import sys; from pathlib import Path; from sage_cli.store.lock import writer\n"
        "with writer(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(samples.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match=f"process {other.pid}"), samples.writing({}):
            pass
        other.kill()
    put(samples, completion())


def test_the_same_sample_twice_is_refused(tmp_path: Path) -> None:
    samples = SampleSet(tmp_path, IDENTITY)
    put(samples, completion("a", 0))
    with pytest.raises(StoreError, match="twice"):
        put(samples, completion("a", 0))


def test_an_error_keeps_what_was_added_and_leftovers_are_removed(tmp_path: Path) -> None:
    samples = SampleSet(tmp_path, IDENTITY)
    samples.folder.mkdir(parents=True)
    leftover = samples.folder / f".part-000000-aa.parquet.{os.getpid()}.tmp"
    leftover.write_bytes(b"half")

    def interrupted() -> None:
        with samples.writing({}) as writer:
            writer.add(completion("a", 0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [row.index for row in samples.completions()] == [0]
    assert not leftover.exists()


def test_parts_are_flushed_by_rows_and_reported_once_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples_module, "FLUSH_ROWS", 2)
    samples = SampleSet(tmp_path, IDENTITY)
    seen: list[tuple[int, int]] = []
    with samples.writing(
        {}, lambda rows: seen.append((len(rows), len(list(samples.completions()))))
    ) as writer:
        for index in range(5):
            writer.add(completion(index=index))
        assert seen == [(2, 2), (2, 4)]
    assert seen == [(2, 2), (2, 4), (1, 5)]


def test_parts_are_flushed_by_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples_module, "FLUSH_S", 0.0)
    samples = SampleSet(tmp_path, IDENTITY)
    with samples.writing({}) as writer:
        writer.add(completion())
        assert len(samples.parts()) == 1
