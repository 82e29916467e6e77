"""What is stored is reported without any model library."""

import json
import subprocess
import sys

import pytest

from sage_cli.config.load import load
from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.evaluation import drawing
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.measure import measure
from sage_cli.policies.policy import Policy
from sage_cli.progress import Silent
from sage_cli.store.completion import Completion

HEAVY = ("torch", "transformers", "trl", "peft", "wandb", "datasets", "pandas", "optuna")
PROGRAM = """
import json, sys
from sage_cli.cli.app import app
try:
    app(json.loads(sys.argv[1]))
except SystemExit as end:
    assert not end.code, end.code
print(sorted(set(json.loads(sys.argv[2])) & set(sys.modules)))
"""


class Right:
    """A sampler whose every answer is right."""

    provenance = {"engine": "scripted"}  # noqa: RUF012

    def __init__(self, setup):
        pass

    def sample(self, requests):
        for request in requests:
            for index in request.indices:
                text = f"<SOLUTION>{request.prompt}</SOLUTION>"
                yield Completion(request.problem_id, index, request.seed, text, 3, "stop")

    def close(self):
        pass


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Two models that were measured on a file; returns the words that name all of it."""
    file = tmp_path / "mine.csv"
    file.write_text("question,gold\n7,7\n8,8\n")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text(name)
        (tmp_path / name / "config.json").write_text("{}")
        (tmp_path / name / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    sets = [f"evaluation.benchmark={file}", "evaluation.samples=2"]
    recipe = EvaluationRecipe.of(load(sets=sets).config)
    monkeypatch.setattr(drawing, "build_sampler", Right)
    benchmarks = load_benchmarks(recipe.evaluation, recipe.data)
    policies = [Policy(str(tmp_path / name)) for name in ("a", "b")]
    measure(policies, benchmarks, recipe, tmp_path / "runs", Silent())
    settings = ["--preset", "tiny", "--n", "2", "--k", "1,2"]
    return ["--benchmark", str(file), *settings, "--runs", str(tmp_path / "runs")]


@pytest.mark.parametrize(
    ("command", "names"),
    [("passk", "a"), ("eval", "a"), ("compare", "ab"), ("passk --dry-run", "b")],
)
def test_no_model_library_is_loaded(measured, tmp_path, command, names):
    verb, *flags = command.split()
    words = [verb, *(str(tmp_path / name) for name in names), *measured, *flags, "--json"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(words), json.dumps(HEAVY)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().splitlines()[-1] == "[]"
    if verb == "passk" and not flags:
        (curve,) = json.loads(done.stdout.rpartition("[]")[0])["curves"]
        assert curve["pass@k"] == [1.0, 1.0]
