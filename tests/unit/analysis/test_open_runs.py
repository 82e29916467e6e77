"""`from sage_cli import open_runs`: what is stored, as tables, without a model library."""

import json
import subprocess
import sys

import pytest

from sage_cli import open_runs
from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import StoreError
from sage_cli.evaluation.benchmarks import grader_for, load_benchmarks
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.models.policies.policy import Policy
from sage_cli.store.runs.run import Runs
from sage_cli.store.samples.annotations import GradeStore
from sage_cli.store.samples.completion import Completion

SETTINGS = {
    "evaluation": {"benchmark": "arithmetic", "samples": 2, "limit": 3, "k": "1,2"},
    "guide": {"name": "branch"},
}


@pytest.fixture
def root(tmp_path):
    """A run with two records and, of three problems, two samples each with grades."""
    config = load(("tiny",), SETTINGS).config
    run = Runs(tmp_path).at("rl", "dapo", "1" * 8)
    with run.recording(config.model_dump(mode="json"), kind="rl", seed=1):
        run.metrics.append({"step": 1, "reward": 0.5})
        run.metrics.append({"step": 2, "reward": 0.75, "eval/pass@1": 0.25})
        run.model.mkdir()
        (run.model / "config.json").write_text("{}")
        (run.model / "tokenizer_config.json").write_text('{"eos_token": "<eos>"}')
        (run.model / "model.safetensors").write_bytes(b"weights")
    recipe = EvaluationSpec.of(config)
    (benchmark,) = load_benchmarks(recipe.evaluation, recipe.data)
    samples = PolicySamples.of_evaluation(Policy.of_run(run), recipe, tmp_path).at(0)
    ids = list(benchmark.golds)
    with samples.writing({"engine": "test"}) as writer:
        writer.claim(ids, 2)
        for id_ in ids:
            for index in range(2):
                writer.add(Completion(id_, index, 0, "text", 1, "stop"))
    with grader_for("arithmetic", recipe.grading, recipe.prompt) as grader:
        grades = GradeStore(samples, grader.identity.mapping())
    for row in samples.completions():  # the first problem's first sample alone is right
        right = row.problem_id == ids[0] and row.index == 0
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
