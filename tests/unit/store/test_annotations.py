"""The samples of a set with their grades as columns."""

from __future__ import annotations

import numpy as np
from stored import IDENTITY, completion, put

from sage_cli.store.annotations import GradedSet, GradeStore
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


def test_each_sample_has_its_own_grade(tmp_path):
    found = graded(tmp_path)
    names = [*found.statuses, None]
    assert [names[code] for code in found.status_S] == [None, "wrong", "right"]
    assert found.tokens_S.tolist() == [1, 2, 3]
    assert len(found) == 3


def test_answers_and_texts_by_row(tmp_path):
    found = graded(tmp_path)
    assert found.extracted(np.array([2, 0, 1])) == ["3", None, None]
    assert found.extracted(np.array([], dtype=int)) == []
    assert found.texts(np.array([2, 0])) == {0: "a", 2: "ccc"}


def test_a_set_without_samples(tmp_path):
    samples = SampleSet(tmp_path, IDENTITY, read_only=True)
    found = GradedSet.from_store(samples, GradeStore(samples, {"judge": "test"}))
    assert len(found) == 0
    assert found.extracted(np.array([], dtype=int)) == []
