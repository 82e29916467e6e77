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


def over(problems, samples, seeds=1, value=0.5):
    return {"pass@1": value, "problems": problems, "samples": samples, "seeds": seeds}


@pytest.mark.parametrize("less", [over(3, 4), over(60, 4), over(3, 256), over(60, 1, seeds=5)])
def test_a_measurement_over_fewer_completions_is_not_kept(run, less):
    assert keep_evaluation(run, "aime", over(60, 256, value=0.25))
    assert not keep_evaluation(run, "aime", less)
    assert evaluation_figures(run)["eval/aime/pass@1"] == 0.25


def test_one_over_as_many_or_more_takes_its_place(run):
    keep_evaluation(run, "aime", over(60, 256))
    # 60 x 256 = 15,360 = 60 x 128 x 2; then 15,420 = 60 x 257
    for figures in (over(60, 128, seeds=2), over(60, 257)):
        assert keep_evaluation(run, "aime", figures)
        assert evaluation_figures(run)["eval/aime/samples"] == figures["samples"]
    assert keep_evaluation(run, "amc23", over(3, 4))  # of another benchmark


@pytest.mark.parametrize("torn", ['{"pass@1": 0.', "[]", '"text"', '{"samples": null}', "\udc80"])
def test_a_torn_file_is_named_and_replaced(run, torn):
    keep_evaluation(run, "aime", over(60, 256))
    path = run.folder / "evaluations" / "aime.json"
    path.write_bytes(torn.encode(errors="surrogateescape"))
    with pytest.raises(StoreError, match=r"aime\.json is torn"):
        evaluation_figures(run)
    assert keep_evaluation(run, "aime", over(3, 4))
    assert evaluation_figures(run)["eval/aime/problems"] == 3
