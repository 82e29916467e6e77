"""Sample sets: what is stored, what is missing, what is damaged."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from stored import IDENTITY, completion, damage, put

from sage_cli.errors import StoreError
from sage_cli.store.samples.parts import name_strangers
from sage_cli.store.samples.sample_set import SampleSet


@pytest.fixture
def samples(tmp_path: Path) -> SampleSet:
    return SampleSet(tmp_path, IDENTITY)


def again(samples: SampleSet) -> SampleSet:
    """The set as another process finds it."""
    return SampleSet(samples.folder.parents[1], samples.identity)


def test_rows_come_back_as_they_went_in(samples: SampleSet) -> None:
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


def test_what_is_missing(samples: SampleSet) -> None:
    put(samples, completion("a", 0), completion("a", 2), completion("a", 300))
    put(samples, completion("b", 1))
    inventory = samples.inventory()
    assert inventory.missing("a", 4) == (1, 3)
    assert inventory.missing("b", 3) == (0, 2)
    assert inventory.missing("c", 2) == (0, 1)
    # of 3 x 3 there are (a, 0), (a, 2) and (b, 1)
    assert inventory.count_missing(["a", "b", "c"], 3) == 6


def test_an_absent_set_holds_nothing(samples: SampleSet) -> None:
    assert samples.inventory().missing("a", 2) == (0, 1)
    assert list(samples.completions()) == []
    assert not samples.folder.exists()


def test_the_key_depends_on_every_part_of_the_identity() -> None:
    others = [
        replace(IDENTITY, model="n" * 16),
        replace(IDENTITY, template="u" * 12),
        replace(IDENTITY, sampling={"temperature": 0.9}),
        replace(IDENTITY, seed=1),
    ]
    assert len({IDENTITY.key, *(other.key for other in others)}) == 5
    ordered = replace(IDENTITY, sampling={"top_k": 1, "temperature": 1.0})
    reordered = replace(IDENTITY, sampling={"temperature": 1.0, "top_k": 1})
    assert reordered.key == ordered.key


def test_a_damaged_part_is_named_and_counts_as_missing(samples: SampleSet) -> None:
    torn = put(samples, completion("a", 0), completion("a", 1))
    put(samples, completion("a", 2))
    damage(torn)
    assert samples.inventory().damaged == (torn.name,)
    assert samples.inventory().missing("a", 3) == (0, 1)
    assert torn.is_file()  # a look changes nothing


@pytest.mark.parametrize("indexed", [False, True])
def test_reading_a_damaged_part_names_it_and_sets_it_aside(
    samples: SampleSet, indexed: bool
) -> None:
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


def test_a_copied_part_counts_once(samples: SampleSet) -> None:
    part = put(samples, completion("a", 0), completion("a", 1))
    checksum = part.stem.split("-")[-1]
    shutil.copy(part, part.with_name(f"part-{'f' * 8}-000007-{checksum}.parquet"))
    assert [row.index for row in again(samples).completions()] == [0, 1]
    assert len(again(samples).inventory().parts) == 1


def test_the_same_sample_in_two_parts_counts_once(samples: SampleSet) -> None:
    put(samples, completion("a", 0), completion("a", 1))
    put(samples, completion("a", 1), completion("a", 2))
    assert [row.index for row in samples.completions()] == [0, 1, 2]
    assert samples.inventory().count_missing(["a"], 4) == 1


def test_two_texts_for_one_sample_are_refused_with_both_names(samples: SampleSet) -> None:
    first = put(samples, completion("a", 0), completion("a", 1, "one"))
    put(samples, completion("a", 2))
    second = put(samples, completion("a", 1, "uno"))
    with pytest.raises(StoreError, match="sample 1 of problem a") as caught:
        samples.inventory()
    assert first.name in caught.value.cause
    assert second.name in caught.value.cause
    second.unlink()
    assert samples.inventory().missing("a", 3) == ()


STRAYS = ("part-copy.parquet", "part-1-2.parquet", "part-(1).parquet", "notes.txt")


def test_stray_files_are_named_once_and_passed_over(
    samples: SampleSet, caplog: pytest.LogCaptureFixture
) -> None:
    with samples.writing({}) as writer:  # which leaves all of a set's own files
        writer.claim(["a"], 1)
        writer.add(completion("a", 0))
    damage(put(samples, completion("a", 1)))
    with pytest.raises(StoreError, match="torn or was altered"):
        list(again(samples).completions())
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
def test_a_folder_that_describes_another_set_is_refused(
    samples: SampleSet, key: str, value: object
) -> None:
    with samples.writing({}) as writer:
        writer.claim(["a"], 1)
        writer.add(completion("a", 0))
    described = samples.folder / "set.json"
    described.write_text(json.dumps({**json.loads(described.read_text()), key: value}))
    for look in (again(samples).inventory, lambda: again(samples).writing({}).__enter__()):
        with pytest.raises(StoreError, match=rf"set.json describes another set .*: {key} differ"):
            look()


@pytest.mark.parametrize("torn", ["", '{"model": "mm', "[]"])
def test_a_torn_description_is_written_anew(samples: SampleSet, torn: str) -> None:
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


def test_an_unreadable_part_is_named_and_not_set_aside(
    samples: SampleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = put(samples, completion("a", 0))
    refusal = PermissionError(13, "Permission denied")
    monkeypatch.setattr(Path, "read_bytes", lambda _: (_ for _ in ()).throw(refusal))
    with pytest.raises(StoreError, match=rf"{part.name} can't be read: Permission denied"):
        samples.inventory()
    assert part.is_file()
