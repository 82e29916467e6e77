"""`from sage_cli import open_runs`: what is stored, as tables, without a model library."""

import json
import subprocess
import sys

import pytest

from sage_cli import open_runs
from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError, StoreError
from sage_cli.evaluation.benchmarks import grader_for, load_benchmarks
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.models.policy import Policy
from sage_cli.store.annotations import GradeStore
from sage_cli.store.completion import Completion
from sage_cli.store.run import Runs

SETTINGS = {
    "evaluation": {"benchmark": "arithmetic", "samples": 2, "limit": 3, "k": "1,2"},
    "guide": {"name": "branch"},
}


@pytest.fixture
def root(tmp_path):
    """A run with two records and, of three problems, two samples each with grades: one is right."""
    config = load(("tiny",), SETTINGS).config
    run = Runs(tmp_path).at("rl", "dapo", "1" * 8)
    with run.recording(config.model_dump(mode="json"), kind="rl", seed=1):
        run.metrics.append({"step": 1, "reward": 0.5})
        run.metrics.append({"step": 2, "reward": 0.75, "eval/pass@1": 0.25})
        run.model.mkdir()
        (run.model / "config.json").write_text("{}")
        (run.model / "tokenizer_config.json").write_text('{"eos_token": "<eos>"}')
        (run.model / "model.safetensors").write_bytes(b"1" * 8)
    (benchmark,) = load_benchmarks(config.evaluation, config.data)
    samples = PolicySamples.from_config(Policy.of_run(run), config, tmp_path).at(0)
    ids = list(benchmark.golds)
    with samples.writing({"engine": "test"}) as writer:
        writer.claim(ids, 2)
        for id_ in ids:
            for index in range(2):
                writer.add(Completion(id_, index, 0, "text", 1, "stop"))
    with grader_for("arithmetic", config.grading, config.prompt) as grader:
        grades = GradeStore(samples, grader.identity.mapping())
    for row in samples.completions():
        right = (row.problem_id, row.index) == (ids[0], 0)
        grades.add([(row, "right" if right else "wrong", None)])
    grades.flush()
    return tmp_path


def test_tables_of_runs_records_and_counts(root):
    runs = open_runs(root)
    assert len(runs) == 1
    assert runs.table("guide.name,reward", where=["rl.seed=1"])[:] == [
        {"id": "rl-dapo-11111111", "guide.name": "branch", "reward": 0.75}
    ]
    run = runs["dapo"]
    assert run.settings["evaluation.samples"] == 2
    assert (run.manifest["status"], run.figures["reward"]) == ("finished", 0.75)
    assert run.records()[:] == [
        {"step": 1, "reward": 0.5, "eval/pass@1": None},
        {"step": 2, "reward": 0.75, "eval/pass@1": 0.25},
    ]
    counts = run.counts()
    assert [(row["n"], row["right"]) for row in counts] == [(2, 1), (2, 0), (2, 0)]
    assert [row["n"] for row in run.counts(samples=1)] == [1, 1, 1]
    assert {row["benchmark"] for row in counts} == {"arithmetic"}


def test_samples_as_a_table(root):
    table = open_runs(root)["dapo"].samples()
    assert table.column_names[:5] == ["run", "benchmark", "seed", "problem", "index"]
    rows = table.to_pylist()
    assert [row["grade"] for row in rows].count("right") == 1
    assert [row["index"] for row in rows] == [0, 1] * 3
    assert {(row["text"], row["tokens"], row["finish_reason"]) for row in rows} == {
        ("text", 1, "stop")
    }
    assert open_runs(root)["dapo"].samples(samples=1).num_rows == 3


@pytest.mark.slow
def test_a_data_frame(root):
    frame = open_runs(str(root))["dapo"].counts().to_pandas()
    assert list(frame.columns) == ["run", "benchmark", "seed", "problem", "n", "right"]
    # of six samples one is right
    assert frame["right"].sum() / frame["n"].sum() == pytest.approx(1 / 6, abs=1e-12)


def test_the_folder_is_that_of_the_commands(root, monkeypatch):
    monkeypatch.setenv("SAGE_RUNS", str(root))
    assert [one.id for one in open_runs()] == ["rl-dapo-11111111"]
    with pytest.raises(StoreError, match="there is no run 'ppo'"):
        open_runs()["ppo"]


def test_no_model_library_is_loaded(root):
    program = (
        "import sys, json; from sage_cli import open_runs\n"
        f"open_runs({str(root)!r})['dapo'].counts()\n"
        "print(json.dumps([m for m in ('torch', 'transformers', 'trl') if m in sys.modules]))"
    )
    words = [sys.executable, "-c", program]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_grades_of_an_own_judge_are_read_where_it_is_named(root, tmp_path):
    (tmp_path / "mine.py").write_text("def same(answer, gold): return answer == gold\n")
    judge = f"{tmp_path / 'mine.py'}:same"
    run = open_runs(root)["rl-dapo"].run
    config = run.read_config() | {"grading": run.read_config()["grading"] | {"judge": judge}}
    (run.folder / "config.json").write_text(json.dumps(config))
    run.note(files=None)  # as if it had been trained so
    opened = open_runs(root)
    with pytest.raises(ConfigurationError, match="is graded by ") as refused:
        opened["rl-dapo"].samples()
    assert f"add judge='{judge}' to the call" in refused.value.next_step
    (row, *_) = opened["rl-dapo"].counts(judge=judge)
    assert row["n"] == 0  # nothing is graded by it yet
    assert opened["rl-dapo"].samples(judge=judge).num_rows == 0
