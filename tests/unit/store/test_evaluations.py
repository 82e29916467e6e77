"""What evaluations found, in a run's folder."""

import pytest

from sage_cli.errors import StoreError
from sage_cli.store.evaluations import evaluation_figures, keep_evaluation


def test_the_last_evaluation_of_each_benchmark_counts(run):
    assert evaluation_figures(run) == {}
    assert keep_evaluation(run, "aime", {"pass@1": 0.1, "pass@8": 0.4})
    assert keep_evaluation(run, "data/mine.jsonl", {"pass@1": 0.3})
    assert keep_evaluation(run, "aime", {"pass@1": 1 / 3})
    # pass@8 went with the evaluation that it belonged to
    assert evaluation_figures(run) == {"eval/aime/pass@1": 1 / 3, "eval/mine/pass@1": 0.3}


def test_the_same_figures_are_nothing_new(run):
    assert keep_evaluation(run, "aime", {"pass@1": 0.1 + 0.2, "grading": "strict"})
    assert not keep_evaluation(run, "aime", {"pass@1": 0.1 + 0.2, "grading": "strict"})
    assert keep_evaluation(run, "aime", {"pass@1": 0.1 + 0.2, "grading": "math-verify"})


def test_a_torn_file_is_named(run):
    keep_evaluation(run, "aime", {"pass@1": 0.5})
    (run.folder / "evaluations" / "aime.json").write_text('{"pass@1": 0.')
    with pytest.raises(StoreError, match=r"aime\.json is torn"):
        evaluation_figures(run)
