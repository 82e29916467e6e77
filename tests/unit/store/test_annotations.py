"""Grades beside samples: stored once, counted without texts, and as columns."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import IDENTITY, completion, damage, put

from sage_cli.errors import StoreError
from sage_cli.store.annotations import GradedSet, GradeStore
from sage_cli.store.completion import Completion
from sage_cli.store.sample_set import SampleSet


def graded(tmp_path):
    samples = SampleSet(tmp_path, IDENTITY)
    samples.folder.mkdir(parents=True)
    put(samples, completion("p", 0, "a"), completion("p", 1, "bb"))
    put(samples, completion("q", 0, "ccc"))
    grades = GradeStore(samples, {"judge": "test"})
    rows = {(row.problem_id, row.index): row for row in samples.completions()}
    grades.add([(rows["q", 0], "right", "3"), (rows["p", 1], "wrong", None)])
    return GradedSet.from_store(samples, grades)


def test_each_sample_has_its_own_grade_and_text_and_an_empty_set_none(tmp_path):
    samples = SampleSet(tmp_path, IDENTITY, read_only=True)
    found = GradedSet.from_store(samples, GradeStore(samples, {"judge": "test"}))
    assert len(found) == 0
    assert found.extracted(np.array([], dtype=int)) == []
    found = graded(tmp_path)
    names = [*found.statuses, None]
    assert [names[code] for code in found.status_S] == [None, "wrong", "right"]
    assert found.tokens_S.tolist() == [1, 2, 3]
    assert len(found) == 3
    assert found.extracted(np.array([2, 0, 1])) == ["3", None, None]
    assert found.extracted(np.array([], dtype=int)) == []
    assert found.texts(np.array([2, 0])) == {0: "a", 2: "ccc"}


GRADER = {"mode": "strict", "timeout_s": 5}


@pytest.fixture
def samples(tmp_path):
    samples = SampleSet(tmp_path, IDENTITY)
    put(samples, completion("a", 0, "1"), completion("a", 1, "2"), completion("b", 0, "1"))
    put(samples, completion("b", 1, "3"), completion("a", 2, "1"))
    return samples


def judge(row):
    """Right is 1."""
    return (row, "right", row.text) if row.text == "1" else (row, "wrong", None)


def grade(samples, ids="ab", n=3, grader=None):
    """Grade what has no grade yet; how many that were."""
    store = GradeStore(samples, grader or GRADER)
    count = 0
    for rows in store.missing(list(ids), n):
        store.add([judge(row) for row in rows])
        count += len(rows)
    store.flush()
    return count


def test_nothing_is_graded_twice_but_by_another_grader(samples):
    assert grade(samples, n=1) == 2
    assert grade(samples) == 3
    assert grade(samples) == 0
    assert grade(samples, grader={"mode": "math-verify"}) == 5
    assert grade(samples, grader=dict(reversed(GRADER.items()))) == 0
    described = sorted((samples.folder / "grades").glob("*/grader.json"))
    assert len(described) == 2


def test_grades_of_one_process_count_before_they_are_on_disk(samples):
    store = GradeStore(samples, GRADER)
    assert store.tally(["a"], 3).lacking == 3
    store.add([judge(row) for row in samples.completions(["a"])])
    assert store.tally(["a"], 3).right_P.tolist() == [2]
    with pytest.raises(ValueError, match="stored"):
        GradeStore(samples, GRADER).add([judge(completion())])


def test_a_sample_that_was_drawn_again_has_no_grade(samples):
    grade(samples)
    torn = samples.folder / samples.inventory().parts[0].name
    damage(torn)
    with pytest.raises(StoreError, match=torn.name):
        GradeStore(samples, GRADER).tally(["a", "b"], 3)
    put(samples, completion("a", 0, "9"), completion("a", 1, "1"), completion("b", 0, "1"))
    store = GradeStore(samples, GRADER)
    assert store.tally(["a", "b"], 3).n_P.tolist() == [1, 1]
    assert {(r.problem_id, r.index) for rows in store.missing(["a", "b"], 3) for r in rows} == {
        ("a", 0),
        ("a", 1),
        ("b", 0),
    }
    assert grade(samples) == 3
    # of a: 9 is wrong now, 1 right, and sample 2 as before; of b: 1 right, 3 wrong
    assert GradeStore(samples, GRADER).tally(["a", "b"], 3).right_P.tolist() == [2, 1]


def test_a_torn_file_is_removed_and_its_samples_are_graded_again(samples):
    grade(samples, ids="a")
    (torn,) = samples.folder.glob("grades/*/*.grades")
    grade(samples, ids="b")
    damage(torn)
    assert GradeStore(samples, GRADER).tally(["a", "b"], 3).n_P.tolist() == [0, 2]
    assert not torn.exists()
    assert grade(samples) == 3


def test_two_processes_that_grade_the_same_do_no_harm(samples):
    stores = [GradeStore(samples, GRADER) for _ in range(2)]
    for store in stores:
        for rows in store.missing(["a", "b"], 3):
            store.add([judge(row) for row in rows])
        store.flush()
    tally = GradeStore(samples, GRADER).tally(["a", "b"], 3)
    assert (tally.n_P.tolist(), tally.right_P.tolist()) == ([3, 2], [2, 1])


def test_many_files_become_one(samples, monkeypatch):
    monkeypatch.setattr("sage_cli.store.annotations.FILES_AT_MOST", 3)
    store = GradeStore(samples, GRADER)
    for row in samples.completions():
        store.add([judge(row)])
        store.flush()
    assert len(list(store.folder.glob("*.grades"))) == 5
    expected = store.tally(["a", "b"], 3)
    for _ in range(2):
        again = GradeStore(samples, GRADER)
        assert len(list(store.folder.glob("*.grades"))) == 1
        assert again.tally(["a", "b"], 3).right_P.tolist() == expected.right_P.tolist()
        assert again.tally(["a", "b"], 3).lacking == 1


def test_where_grades_cannot_be_kept_they_count_all_the_same(samples, monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("sage_cli.store.annotations.write_sealed", refuse)
    store = GradeStore(samples, GRADER)
    store.add([judge(row) for row in samples.completions()])
    assert store.tally(["a", "b"], 3).right_P.tolist() == [2, 1]
    assert "Permission denied" in caplog.text


STATUSES = ("right", "wrong", "unparseable", "timeout")
stored_samples = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.integers(0, 12)),
    st.tuples(st.sampled_from((None, *STATUSES)), st.booleans(), st.integers(0, 3)),
)


@settings(deadline=None, max_examples=60)
@given(stored_samples, st.integers(1, 14), st.permutations("abcd"), st.integers(1, 4))
@pytest.mark.slow
def test_a_tally_counts_the_stream(tmp_path_factory, stored, n, order, at_once):
    samples = SampleSet(tmp_path_factory.mktemp("set"), IDENTITY)
    for part in range(4):
        rows = [
            Completion(*key, 0, "x" * key[1], key[1], "length" if cut else "stop")
            for key, (_, cut, of_part) in stored.items()
            if of_part == part
        ]
        if rows:
            put(samples, *rows, number=part)
    graded = [row for row in samples.completions() if stored[row.problem_id, row.index][0]]
    for start in range(0, len(graded), at_once):
        store = GradeStore(samples, GRADER)
        some = graded[start : start + at_once]
        store.add([(r, stored[r.problem_id, r.index][0] or "", r.text) for r in some])
        store.flush()
    ids = order[:3]
    store = GradeStore(samples, GRADER)
    streamed = list(store.stream(ids, n))
    assert all(
        (status, text) == (stored[row.problem_id, row.index][0], row.text)
        for row, status, text in streamed
    )
    tally = store.tally(ids, n)
    by_problem = Counter(row.problem_id for row, _, _ in streamed)
    right = Counter(row.problem_id for row, status, _ in streamed if status == "right")
    assert tally.problem_ids == tuple(ids)
    assert tally.n_P.tolist() == [by_problem[id_] for id_ in ids]
    assert tally.right_P.tolist() == [right[id_] for id_ in ids]
    places = {(row.problem_id, row.index) for row, status, _ in streamed if status == "right"}
    assert tally.right_PN.tolist() == [[(id_, i) in places for i in range(n)] for id_ in ids]
    assert store.seed == IDENTITY.seed
    assert tally.statuses == Counter(status for _, status, _ in streamed)
    assert tally.truncated == sum(row.finish_reason == "length" for row, _, _ in streamed)
    assert tally.right_truncated == sum(
        (row.finish_reason, status) == ("length", "right") for row, status, _ in streamed
    )
    assert tally.tokens == sum(row.tokens for row, _, _ in streamed)
    assert tally.lacking == n * len(ids) - len(streamed)
    left = [row for rows in store.missing(ids, n) for row in rows]
    assert {(row.problem_id, row.index) for row in left} == {
        key
        for key, (status, *_) in stored.items()
        if status is None and key[0] in ids and key[1] < n
    }
