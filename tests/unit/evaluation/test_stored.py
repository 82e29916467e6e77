"""What is stored is reported without any model library."""

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec
from sage_cli.evaluation import policy_sampler as drawing
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.measure import measure
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.models.policies.policy import Policy
from sage_cli.progress import Silent
from sage_cli.sampling.build import build_sampler
from sage_cli.store.runs.run import Runs
from sage_cli.store.samples import writer
from sage_cli.store.samples.completion import Completion

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


def test_a_full_disk_while_sampling_is_a_panel_and_what_was_stored_is_kept(
    measured, tmp_path, monkeypatch
):
    """The first part is written; then there is no room, as on a disk that fills."""
    monkeypatch.setattr(writer, "FLUSH_ROWS", 3)
    monkeypatch.setenv("COLUMNS", "300")
    write_bytes, room = Path.write_bytes, [True]

    def limited(path, content):
        if room and room.pop():
            return write_bytes(path, content)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sage(*more):
        words = ["passk", str(tmp_path / "a"), *measured, *more]  # the last --n counts
        return CliRunner().invoke(app, words)

    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", limited)
        stopped = sage("--n", "6")
    assert stopped.exit_code == 2
    model = Policy(str(tmp_path / "a")).fingerprint
    (folder,) = [
        path.parent
        for path in tmp_path.glob("runs/samples/*/set.json")
        if json.loads(path.read_text())["model"] == model
    ]
    assert f"{folder} can't be written: No space left on device" in stopped.output
    assert "what was stored until now is kept" in stopped.output
    assert "Traceback" not in stopped.output
    assert not list(folder.glob(".*.tmp"))
    # of 2 x 6 samples 2 x 2 were stored before and 3 in the part that was written
    assert "sample a: 12 samples, 7 done before" in sage("--n", "6").output


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
    recipe = EvaluationSpec.of(load(sets=sets).config)
    monkeypatch.setattr(drawing, "build_sampler", Right)
    benchmarks = load_benchmarks(recipe.evaluation, recipe.data)
    policies = [Policy(str(tmp_path / name)) for name in ("a", "b")]
    samples = [PolicySamples.of_evaluation(one, recipe, tmp_path / "runs") for one in policies]
    measure(samples, benchmarks, recipe, Silent())
    settings = ["--preset", "tiny", "--n", "2", "--k", "1,2"]
    return ["--benchmark", str(file), *settings, "--runs", str(tmp_path / "runs")]


@pytest.mark.parametrize(
    ("command", "names"),
    [("passk", "a"), ("eval", "a"), ("compare", "ab"), ("passk --dry-run", "b")],
)
@pytest.mark.slow
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


@pytest.mark.slow
def test_a_run_whose_plug_ins_are_not_installed_is_measured(measured, tmp_path, monkeypatch):
    """What is stored of it is counted; only drawing more takes its sampler."""
    theirs = load(sets=["tracking.wandb=off"]).config.model_dump(mode="json")
    theirs["guide"] = {"name": "theirs", "options": {"strength": 2}, "q_min": 0.6, "q_max": 1.4}
    theirs["rl"] |= {"algo": "theirs", "scale": 2}
    theirs["sampling"] |= {"backend": "theirs", "options": {"beam": 3}}
    theirs["data"] |= {"generators": {"theirs": {"largest": 9}}}
    run = Runs(tmp_path / "runs").at("rl", "theirs", "1" * 8)
    with run.recording(theirs, kind="rl"):
        shutil.copytree(tmp_path / "a", run.model)
    monkeypatch.setattr(drawing, "build_sampler", build_sampler)

    own = [word for word in measured if word not in ("--preset", "tiny")]

    def sage(*more):
        return CliRunner().invoke(app, ["passk", "theirs", *own, *more, "--json"])

    (curve,) = json.loads(sage("--set", "grading.workers=1").stdout)["curves"]
    assert (curve["policy"], curve["pass@k"]) == (run.id, [1.0, 1.0])
    typed = ("--set", "sampling.backend=theirs")  # a stored one isn't taken over
    said = json.loads(sage("--n", "3", *typed).stdout)["error"]["cause"]
    assert said.startswith("sampling.backend: unknown sampler 'theirs'")
