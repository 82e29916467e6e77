"""Parts: checksums in their names, and files that are no parts."""

import errno
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import IDENTITY, completion, damage, put

from sage_cli.errors import StoreError
from sage_cli.store import inventory_index as index_module
from sage_cli.store.inventory_index import INDEX_FILE
from sage_cli.store.sample_parts import (
    DamagedPartError,
    list_parts,
    name_strangers,
    read_part,
    write_part,
)
from sage_cli.store.sample_set import SampleSet

WRITER = "0123abcd"


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_any_altered_or_cut_part_is_detected(tmp_path_factory, data):
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


def test_parts_are_listed_by_number_whoever_wrote_them(tmp_path):
    written = [
        write_part(tmp_path, writer, number, [completion(index=i)], {})
        for i, (writer, number) in enumerate([("ffffffff", 0), ("00000000", 1), ("ffffffff", 2)])
    ]
    assert [part.name for part in list_parts(tmp_path)] == [path.name for path in written]


def test_a_file_without_a_writer_in_its_name_is_no_part(tmp_path, caplog):
    written = write_part(tmp_path, WRITER, 3, [completion("a", 0)], {})
    former = written.rename(tmp_path / written.name.replace(f"{WRITER}-", ""))
    assert list_parts(tmp_path) == []
    name_strangers(tmp_path, frozenset())
    assert f"{former} is not a part of the sample set" in caplog.text


def test_a_full_disk_is_a_cause_with_a_next_step_and_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreError, match="No space left on device") as caught:
        write_part(tmp_path, WRITER, 0, [completion()], {})
    assert "is kept" in str(caught.value.next_step)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def read(monkeypatch):
    """Names of the parts that were read to know what they hold."""
    names = []

    def noted(path, columns):
        names.append(path.name)
        return read_part(path, columns)

    monkeypatch.setattr(index_module, "read_part", noted)
    return names


def keys(samples):
    return {(row.problem_id, row.index) for row in samples.completions()}


def test_a_part_is_read_once_and_then_known(tmp_path, read):
    first = put(SampleSet(tmp_path, IDENTITY), completion("a", 0), completion("b", 5))
    assert SampleSet(tmp_path, IDENTITY).inventory().missing("b", 6) == (0, 1, 2, 3, 4)
    second = put(SampleSet(tmp_path, IDENTITY), completion("a", 1), completion("c", 0))
    for _ in range(2):
        inventory = SampleSet(tmp_path, IDENTITY).inventory()
        assert inventory.missing("a", 3) == (2,)
        assert inventory.missing("b", 6) == (0, 1, 2, 3, 4)
        assert inventory.missing("c", 2) == (1,)
    assert read == [first.name, second.name]


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_a_torn_index_is_made_anew(tmp_path_factory, data):
    root = tmp_path_factory.mktemp("set")
    samples = SampleSet(root, IDENTITY)
    put(samples, completion("a", 0), completion("a", 1))
    samples.inventory()
    file = samples.folder / INDEX_FILE
    content = bytearray(file.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[position] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del content[position:]
    file.write_bytes(bytes(content))
    assert SampleSet(root, IDENTITY).inventory().missing("a", 3) == (2,)
    assert index_module.load_index(samples.folder).missing("a", 3) == (2,)


def test_a_stale_index_is_brought_up_to_date(tmp_path, read):
    samples = SampleSet(tmp_path, IDENTITY)
    gone = put(samples, completion("a", 0), number=0)
    torn = put(samples, completion("a", 1), number=1)
    same = put(samples, completion("a", 2), number=2)
    touched = put(samples, completion("a", 3), number=3)
    samples.inventory()
    read.clear()
    gone.unlink()
    damage(torn)
    os.utime(touched, ns=(1, 1))
    early = put(samples, completion("a", 4), number=0)
    found = SampleSet(tmp_path, IDENTITY).inventory()
    assert found.missing("a", 5) == (0, 1)
    assert found.damaged == (torn.name,)
    assert sorted(read) == sorted([torn.name, touched.name, early.name])
    assert [part.name for part in found.parts] == [early.name, same.name, touched.name]
    assert [row.index for _, rows in samples.read(found, found.select()) for row in rows] == [
        4,
        2,
        3,
    ]


def test_where_the_index_cannot_be_written_the_set_is_read_all_the_same(tmp_path, monkeypatch):
    samples = SampleSet(tmp_path, IDENTITY)
    put(samples, completion("a", 0))

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(index_module, "write_sealed", refuse)
    assert keys(samples) == {("a", 0)}


@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 40)), min_size=1), max_size=5
    ),
    st.integers(1, 45),
)
@pytest.mark.slow
def test_missing_is_the_complement_whatever_the_parts(tmp_path_factory, stored, n):
    root = tmp_path_factory.mktemp("set")
    samples = SampleSet(root, IDENTITY)
    for number, sample_keys in enumerate(stored):
        put(samples, *(completion(*key) for key in sample_keys), number=number)
        if number % 2:  # some parts at once, others one by one
            samples.inventory()
    held = set().union(*stored) if stored else set()
    for inventory in (samples.inventory(), SampleSet(root, IDENTITY).inventory()):
        for problem in "abcd":
            lacking = {i for i in range(n) if (problem, i) not in held}
            assert inventory.missing(problem, n) == tuple(sorted(lacking))
        expected = 4 * n - sum(index < n for _, index in held)
        assert inventory.count_missing("abcd", n) == expected
    found = [(row.problem_id, row.index) for row in samples.completions(n=n)]
    assert len(found) == len(set(found))
    assert set(found) == {key for key in held if key[1] < n}
