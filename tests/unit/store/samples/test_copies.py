"""One sample for each problem and index, however often it is stored: all readers agree."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import IDENTITY, completion, put

from sage_cli.errors import StoreError
from sage_cli.store.annotations import GradeStore
from sage_cli.store.sample_parts import Completion
from sage_cli.store.sample_set import SampleSet

GRADER = {"mode": "strict"}
IDS = ("a", "b", "c")
KEYS = [(problem, index) for problem in "ab" for index in range(5)]
COPIES = ("part-00000000-000000-{}.parquet", "part-ffffffff-000009-{}.parquet", "part-copy.parquet")
"""Names of copies: sorted before all parts, sorted after them, and no part's name."""


def text_of(key: tuple[str, int]) -> str:
    return "right" if key[1] % 2 else f"{key[0]}{key[1]}"


def row(key: tuple[str, int]) -> Completion:
    return completion(*key, text_of(key))


def copy(part: Path, name: str) -> None:
    shutil.copy(part, part.with_name(name.format(part.stem.split("-")[-1])))


def grade(samples: SampleSet) -> GradeStore:
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
def test_every_reader_counts_a_sample_once(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[set[tuple[str, int]]],
    copied: list[tuple[int, str]],
    graded_before: bool,
    n: int,
) -> None:
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


def claimed(samples: SampleSet) -> object:
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
def test_every_reader_refuses_two_texts_for_one_sample(
    tmp_path: Path, reader: str, read_only: bool
) -> None:
    samples = SampleSet(tmp_path, IDENTITY, read_only=read_only)
    names = [
        put(samples, completion("a", 0, text), completion("b", 0), number=number).name
        for number, text in enumerate(("one", "uno"))
    ]
    said = f"different texts for sample 0 of problem a: in {names[0]} and {names[1]}"
    with pytest.raises(StoreError, match=said):
        READERS[reader](samples)


def test_two_texts_in_one_part_are_refused_too(tmp_path: Path) -> None:
    samples = SampleSet(tmp_path, IDENTITY)
    put(samples, completion("a", 0, "one"), completion("b", 0))
    part = put(samples, completion("a", 1, "two"), completion("a", 1, "due"))
    with pytest.raises(StoreError, match=f"sample 1 of problem a: in {part.name}$"):
        samples.inventory()
