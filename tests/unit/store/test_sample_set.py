"""Sample sets: what several writers share, and one sample for each problem and index."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import IDENTITY, completion, damage, put

from sage_cli.errors import StoreError
from sage_cli.store import claims, sample_writer
from sage_cli.store.annotations import GradeStore
from sage_cli.store.claims import Claims
from sage_cli.store.inventory_index import load_index
from sage_cli.store.locks import EXPIRY_S
from sage_cli.store.sample_parts import name_strangers
from sage_cli.store.sample_set import SampleSet

CLAIM = """
import sys
from pathlib import Path
from sage_cli.store.claims import Claims
claims = Claims(Path(sys.argv[1]))
with claims.registered():
    with claims.mutex():
        claims.take({"a": [0, 1]})
    print(claims.token, flush=True)
    sys.stdin.read()
"""


@contextmanager
def claiming(folder, before=""):
    """Another process that claims samples, and its token."""
    program = f"{before}{CLAIM}"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as other:
        yield other, other.stdout.readline().strip()


def others(claims):
    with claims.mutex():
        return {token: dict(claim.indices) for token, claim in claims.others().items()}


def test_a_claim_is_seen_by_others_and_goes_with_its_writer(tmp_path):
    first, second = Claims(tmp_path), Claims(tmp_path)
    with second.registered():
        with first.registered():
            with first.mutex():
                first.take({"a": [3]})
            assert others(second) == {first.token: {"a": [3]}}
            with first.mutex():
                first.take({"b": [1]})
            assert others(second) == {first.token: {"b": [1]}}
            with first.mutex():
                first.take({})
            assert others(second) == {first.token: {}}
            assert others(first) == {second.token: {}}
        assert others(second) == {}
    assert [file.name for file in (tmp_path / "claims").iterdir()] == ["mutex"]


def test_a_killed_writers_claim_is_void_and_removed(tmp_path):
    mine = Claims(tmp_path)
    with mine.registered(), claiming(tmp_path) as (other, token):
        with mine.mutex():
            (claim,) = mine.others().values()
        assert claim.indices == {"a": [0, 1]}
        assert f"process {other.pid} on " in claim.holder
        assert list((tmp_path / "claims").glob(f"{token}.*"))
        other.kill()
        other.wait()
        assert others(mine) == {}
        assert not list((tmp_path / "claims").glob(f"{token}.*"))


def test_a_claim_of_another_host_is_alive_until_it_was_silent_for_long(tmp_path):
    mine = Claims(tmp_path)
    elsewhere = "from other_host import elsewhere\nelsewhere('b')\n"
    with mine.registered(), claiming(tmp_path, elsewhere) as (other, token):
        other.kill()
        other.wait()
        assert others(mine) == {token: {"a": [0, 1]}}
        sign = tmp_path / "claims" / f"{token}.lock.lease"
        os.utime(sign, (then := time.time() - EXPIRY_S - 1, then))
        assert others(mine) == {}
        assert not sign.exists()


def test_a_writer_whose_claim_is_void_stores_no_more(tmp_path):
    mine = Claims(tmp_path)
    mine.require()  # not yet one of the writers
    with mine.registered():
        mine.require()
        for file in (tmp_path / "claims").glob(f"{mine.token}.*"):
            file.unlink()  # as another host's writer does, which heard nothing for long
        with pytest.raises(StoreError, match="was taken over"):
            mine.require()


@pytest.mark.parametrize("torn", ["", '{"holder": "pro', "[]", '{"holder": "me", "indices": 3}'])
def test_a_torn_claim_claims_nothing(tmp_path, torn):
    first, second = Claims(tmp_path), Claims(tmp_path)
    with first.registered(), second.registered():
        (tmp_path / "claims" / f"{first.token}.json").write_text(torn)
        assert others(second) == {first.token: {}}


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


def test_a_mutex_that_is_never_given_back_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(claims, "_PATIENCE_S", 0.1)
    refused = pytest.raises(StoreError, match="claims")
    with Claims(tmp_path).mutex(), refused as caught, Claims(tmp_path).mutex():
        pass
    assert "stopped process" in str(caught.value.next_step)


@pytest.fixture
def samples(tmp_path):
    return SampleSet(tmp_path, IDENTITY)


def test_what_is_missing_is_claimed_in_chunks(samples, monkeypatch):
    monkeypatch.setattr(sample_writer, "CHUNK", 3)
    put(samples, completion("a", 1))
    with samples.writing({}) as writer:
        shares = []
        while share := writer.claim(["a", "b"], 4):
            shares.append(share)
            for problem, indices in share.items():
                for index in indices:
                    writer.add(completion(problem, index))
    assert shares == [{"a": (0, 2, 3)}, {"b": (0, 1, 2)}, {"b": (3,)}]


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
