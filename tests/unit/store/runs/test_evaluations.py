"""What evaluations found, in a run's folder."""

import pytest

from sage_cli.store.runs.evaluations import evaluation_figures, name_in, record_evaluation


def test_the_last_evaluation_of_each_benchmark_counts(run):
    assert evaluation_figures(run) == {}
    assert record_evaluation(run, "aime", {"pass@1": 0.1, "pass@8": 0.4})
    assert record_evaluation(run, "data/mine.jsonl", {"pass@1": 0.3})
    assert record_evaluation(run, "aime", {"pass@1": 1 / 3})
    # pass@8 went with the evaluation that it belonged to
    assert evaluation_figures(run) == {"eval/aime/pass@1": 1 / 3, "eval/mine/pass@1": 0.3}


def test_the_same_figures_are_nothing_new(run):
    assert record_evaluation(run, "aime", {"pass@1": 0.1 + 0.2, "grading": "strict"})
    assert not record_evaluation(run, "aime", {"pass@1": 0.1 + 0.2, "grading": "strict"})
    assert record_evaluation(run, "aime", {"pass@1": 0.1 + 0.2, "grading": "math-verify"})


def over(problems, samples, seeds=1, value=0.5):
    return {"pass@1": value, "problems": problems, "samples": samples, "seeds": seeds}


@pytest.mark.parametrize("less", [over(3, 4), over(60, 4), over(3, 256), over(60, 1, seeds=5)])
def test_a_measurement_over_fewer_completions_is_not_kept(run, less):
    assert record_evaluation(run, "aime", over(60, 256, value=0.25))
    assert not record_evaluation(run, "aime", less)
    assert evaluation_figures(run)["eval/aime/pass@1"] == 0.25


def test_one_over_as_many_or_more_takes_its_place(run):
    record_evaluation(run, "aime", over(60, 256))
    # 60 x 256 = 15,360 = 60 x 128 x 2; then 15,420 = 60 x 257
    for figures in (over(60, 128, seeds=2), over(60, 257)):
        assert record_evaluation(run, "aime", figures)
        assert evaluation_figures(run)["eval/aime/samples"] == figures["samples"]
    assert record_evaluation(run, "amc23", over(3, 4))  # of another benchmark


@pytest.mark.parametrize("torn", ['{"pass@1": 0.', "[]", '"text"', '{"samples": null}', "\udc80"])
def test_a_torn_file_is_named_once_and_replaced_and_others_count(run, torn, caplog):
    record_evaluation(run, "aime", over(60, 256))
    record_evaluation(run, "amc23", over(40, 8))
    path = run.folder / "evaluations" / "aime.json"
    path.write_bytes(torn.encode(errors="surrogateescape"))
    for _ in range(2):
        assert set(evaluation_figures(run)) == {f"eval/amc23/{name}" for name in over(40, 8)}
    (said,) = caplog.messages
    assert f"{path} is torn or was edited" in said
    assert said.endswith("remove it, and evaluate again")
    assert record_evaluation(run, "aime", over(3, 4))
    assert evaluation_figures(run)["eval/aime/problems"] == 3


def test_two_files_of_one_name_have_records_of_their_own(run):
    one, other = "a" * 16, "b" * 16
    assert record_evaluation(run, "a/test.jsonl", over(60, 256, value=0.25), one)
    assert record_evaluation(run, "b/test.jsonl", over(3, 4, value=0.75), other)
    assert not record_evaluation(run, "a/test.jsonl", over(3, 4), one)
    assert record_evaluation(run, "b/test.jsonl", over(3, 8, value=0.5), other)
    found = evaluation_figures(run)
    for file, name, value in (
        ("a/test.jsonl", "test", 0.25), ("b/test.jsonl", "test-bbbbbbbb", 0.5),
    ):  # fmt: skip
        assert name_in(found, file) == name
        assert (found[f"eval/{name}/pass@1"], found[f"eval/{name}/benchmark"]) == (value, file)
    assert name_in(found, "c/test.jsonl") == "test"


def test_a_record_that_names_no_content_is_of_another_benchmark(run):
    record_evaluation(run, "a/test.jsonl", over(60, 256))
    assert record_evaluation(run, "a/test.jsonl", over(3, 4), "a" * 16)
    names = sorted(path.name for path in (run.folder / "evaluations").iterdir())
    assert names == ["test-aaaaaaaa.json", "test.json"]


@pytest.mark.parametrize("first", ["amc23", "mine/amc23.jsonl"])
def test_a_file_that_has_a_registered_name(run, first):
    content = {"amc23": "amc23", "mine/amc23.jsonl": "c" * 16}
    second = next(name for name in content if name != first)
    record_evaluation(run, first, over(40, 8, value=0.25), content[first])
    record_evaluation(run, second, over(40, 8, value=0.75), content[second])
    found = evaluation_figures(run)
    assert found["eval/amc23/pass@1"] == 0.25
    assert found[f"eval/amc23-{content[second][:8]}/pass@1"] == 0.75
