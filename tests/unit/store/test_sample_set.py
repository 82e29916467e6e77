"""Sample sets: what several writers share, and one sample for each problem and index."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import IDENTITY, completion, damage, put

from sage_cli.errors import StoreError
from sage_cli.store.annotations import GradeStore
from sage_cli.store.claims import Claims
from sage_cli.store.inventory_index import load_index
from sage_cli.store.sample_parts import name_strangers
from sage_cli.store.sample_set import SampleSet


def test_half_written_files_go_but_not_a_living_writers(tmp_path):
    mine, other = Claims(tmp_path), Claims(tmp_path)
    dead = tmp_path / ".part-00000000-000000-ab.parquet.12345678.tmp"
    former = tmp_path / ".part-000000-ab.parquet.4711.tmp"
    alive = tmp_path / f".part-{other.token}-000000-ab.parquet.12345678.tmp"
    for leftover in (dead, former, alive):
        leftover.write_bytes(b"half")
    with mine.registered(), other.registered(), mine.mutex():
        mine.sweep()
    assert [file for file in (dead, former, alive) if file.exists()] == [alive]


def test_a_writer_leaves_the_index_as_it_found_the_set_last(samples):
    with samples.writing({}) as writer:
        while share := writer.claim(["p"], 2):
            for index in share["p"]:
                writer.add(completion(index=index))
    assert load_index(samples.folder).missing("p", 3) == (2,)


def test_a_damaged_part_is_set_aside_and_claimed_again(samples):
    torn = put(samples, completion("a", 0), completion("a", 1))
    put(samples, completion("a", 2))
    damage(torn)
    assert samples.inventory().damaged == (torn.name,)
    assert samples.inventory().missing("a", 3) == (0, 1)
    assert torn.is_file()  # a look changes nothing
    with samples.writing({}) as writer:
        assert writer.claim(["a"], 3) == {"a": (0, 1)}
        assert writer.claim(["a"], 4) == {"a": (3,)}
    assert torn.with_name(f"{torn.name}.damaged").is_file()


def again(samples):
    """The set as another process finds it."""
    return SampleSet(samples.folder.parents[1], samples.identity)


def test_rows_come_back_as_they_went_in(samples):
    rows = [
        completion("a", 0, "π ≈ 3.14\n"),
        replace(completion("a", 3, ""), finish_reason="length", token_ids=()),
        replace(completion("b", 1, "x" * 10_000), token_ids=(7, 0, 151_000)),
    ]
    part = put(samples, *rows)
    assert list(samples.completions()) == rows
    assert [row.token_ids for row in samples.completions()] == [None, (), (7, 0, 151_000)]
    assert {row.part for row in samples.completions()} == {part.name}
    assert list(samples.completions(["a"], n=3)) == rows[:1]
    assert not list(samples.completions([]))


def test_an_absent_set_holds_nothing(samples):
    assert samples.inventory().missing("a", 2) == (0, 1)
    assert list(samples.completions()) == []
    assert not samples.folder.exists()


def test_the_key_depends_on_every_part_of_the_identity():
    changes = (
        {"model": "n" * 16},
        {"template": "u" * 12},
        {"seed": 1},
        {"sampling": {"temperature": 0.9}},
    )
    assert len({IDENTITY.key, *(replace(IDENTITY, **change).key for change in changes)}) == 5
    ordered = replace(IDENTITY, sampling={"top_k": 1, "temperature": 1.0})
    reordered = replace(IDENTITY, sampling={"temperature": 1.0, "top_k": 1})
    assert reordered.key == ordered.key


@pytest.mark.parametrize("indexed", [False, True])
def test_reading_a_damaged_part_names_it_and_sets_it_aside(samples, indexed):
    torn = put(samples, completion("a", 0), completion("a", 1))
    put(samples, completion("a", 2))
    if indexed:  # the index still says what the part held: only reading tells
        samples.inventory()
        content, time = torn.read_bytes(), torn.stat().st_mtime_ns
        torn.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        os.utime(torn, ns=(time, time))
        assert again(samples).inventory().missing("a", 3) == ()
    else:
        damage(torn)
    with pytest.raises(StoreError, match=torn.name):
        list(again(samples).completions())
    assert torn.with_name(f"{torn.name}.damaged").is_file()
    found = again(samples)
    assert found.inventory().missing("a", 3) == (0, 1)
    assert [row.index for row in found.completions()] == [2]


STRAYS = ("part-copy.parquet", "part-1-2.parquet", "part-(1).parquet", "notes.txt")


def test_stray_files_are_named_once_and_passed_over(samples, caplog):
    with samples.writing({}) as writer:  # which leaves all of a set's own files
        writer.claim(["a"], 1)
        writer.add(completion("a", 0))
    damaged = put(samples, completion("a", 1))
    damage(damaged)
    with pytest.raises(StoreError, match="corrupt or was edited:"):
        list(again(samples).completions())
    assert caplog.messages == [f"{damaged} is damaged: its samples count as missing"]
    caplog.clear()
    (part,) = samples.folder.glob("*.parquet")
    for name in (*STRAYS, f"{part.name}.bak"):
        shutil.copy(part, part.with_name(name))
    assert caplog.messages == []
    name_strangers.cache_clear()  # as another process
    for _ in range(2):
        assert [row.index for row in again(samples).completions()] == [0]
    assert sorted(caplog.messages) == sorted(
        f"{samples.folder / name} is not a part of the sample set and is ignored"
        for name in (*STRAYS, f"{part.name}.bak")
    )


@pytest.mark.parametrize(
    ("key", "value"), [("model", "n" * 16), ("seed", 1), ("sampling", {"temperature": 0.9})]
)
def test_a_folder_that_describes_another_set_is_refused(samples, key, value):
    with samples.writing({}) as writer:
        writer.claim(["a"], 1)
        writer.add(completion("a", 0))
    described = samples.folder / "set.json"
    described.write_text(json.dumps({**json.loads(described.read_text()), key: value}))
    for look in (again(samples).inventory, lambda: again(samples).writing({}).__enter__()):
        with pytest.raises(StoreError, match=rf"set.json describes another set .*: {key} differ"):
            look()


@pytest.mark.parametrize("torn", ["", '{"model": "mm', "[]"])
def test_a_torn_description_is_written_anew(samples, torn):
    put(samples, completion("a", 0))
    described = samples.folder / "set.json"
    described.write_text(torn)
    if torn == "[]":
        with pytest.raises(StoreError, match="model, template, sampling, seed differ"):
            samples.inventory()
        return
    assert samples.inventory().missing("a", 2) == (1,)
    with samples.writing({}):
        pass
    assert json.loads(described.read_text()) == asdict(IDENTITY)


def test_an_unreadable_part_is_named_and_not_set_aside(samples, monkeypatch):
    part = put(samples, completion("a", 0))
    refusal = PermissionError(13, "Permission denied")
    monkeypatch.setattr(Path, "read_bytes", lambda _: (_ for _ in ()).throw(refusal))
    with pytest.raises(StoreError, match=rf"{part.name} can't be read: Permission denied"):
        samples.inventory()
    assert part.is_file()


GRADER = {"mode": "strict"}
IDS = ("a", "b", "c")
KEYS = [(problem, index) for problem in "ab" for index in range(5)]
COPIES = ("part-00000000-000000-{}.parquet", "part-ffffffff-000009-{}.parquet", "part-copy.parquet")
"""Names of copies: sorted before all parts, sorted after them, and no part's name."""


def text_of(key):
    return "right" if key[1] % 2 else f"{key[0]}{key[1]}"


def row(key):
    return completion(*key, text_of(key))


def copy(part, name):
    shutil.copy(part, part.with_name(name.format(part.stem.split("-")[-1])))


def grade(samples):
    """Grade what has no grade yet."""
    grades = GradeStore(samples, GRADER)
    for rows in grades.missing(IDS, 5):
        grades.add([(one, "right" if one.text == "right" else "wrong", one.text) for one in rows])
    grades.flush()
    return grades


@settings(deadline=None, max_examples=40)
@given(
    parts=st.lists(st.sets(st.sampled_from(KEYS), min_size=1), min_size=1, max_size=4),
    copied=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(COPIES)), max_size=4),
    graded_before=st.booleans(),
    n=st.integers(1, 6),
)
@pytest.mark.slow
def test_every_reader_counts_a_sample_once(tmp_path_factory, parts, copied, graded_before, n):
    root = tmp_path_factory.mktemp("set")
    written = [
        put(SampleSet(root, IDENTITY), *map(row, sorted(keys)), number=number)
        for number, keys in enumerate(parts)
    ]
    if graded_before:
        grade(SampleSet(root, IDENTITY))
    for number, name in copied:
        copy(written[number % len(written)], name)
    held = {key for key in set().union(*parts) if key[1] < n}

    for read_only in (True, False):
        samples = SampleSet(root, IDENTITY, read_only=read_only)
        inventory = samples.inventory()
        assert inventory.count_missing(IDS, n) == 3 * n - len(held)
        assert {(p, i) for p in IDS for i in set(range(n)) - set(inventory.missing(p, n))} == held
        found = [((one.problem_id, one.index), one.text) for one in samples.completions(IDS, n)]
        assert sorted(found) == sorted((key, text_of(key)) for key in held)

    grades = grade(SampleSet(root, IDENTITY))
    tally = grades.tally(IDS, n)
    assert tally.n_P.tolist() == [sum(key[0] == id_ for key in held) for id_ in IDS]
    assert tally.right_P.tolist() == [
        sum(key[0] == id_ and key[1] % 2 for key in held) for id_ in IDS
    ]
    assert tally.lacking == 3 * n - len(held)
    assert tally.tokens == sum(len(text_of(key)) for key in held)
    streamed = [(one.problem_id, one.index) for one, _, _ in grades.stream(IDS, n)]
    assert sorted(streamed) == sorted(held)


def claimed(samples):
    with samples.writing({}) as writer:
        return writer.claim(["a"], 3)


READERS: dict[str, Callable[[SampleSet], object]] = {
    "inventory": SampleSet.inventory,
    "completions": lambda samples: list(samples.completions(["b"])),
    "tally": lambda samples: GradeStore(samples, GRADER).tally(["b"], 1),
    "missing": lambda samples: list(GradeStore(samples, GRADER).missing(["b"], 1)),
    "stream": lambda samples: list(GradeStore(samples, GRADER).stream(["b"], 1)),
    "writing": claimed,
}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_refuses_two_texts_for_one_sample(tmp_path, reader, read_only):
    samples = SampleSet(tmp_path, IDENTITY, read_only=read_only)
    names = [
        put(samples, completion("a", 0, text), completion("b", 0), number=number).name
        for number, text in enumerate(("one", "uno"))
    ]
    said = f"different texts for sample 0 of problem a: in {names[0]} and {names[1]}"
    with pytest.raises(StoreError, match=said):
        READERS[reader](samples)


def test_two_texts_in_one_part_are_refused_too(tmp_path):
    samples = SampleSet(tmp_path, IDENTITY)
    put(samples, completion("a", 0, "one"), completion("b", 0))
    part = put(samples, completion("a", 1, "two"), completion("a", 1, "due"))
    with pytest.raises(StoreError, match=f"sample 1 of problem a: in {part.name}$"):
        samples.inventory()
