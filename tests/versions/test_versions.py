"""The oldest and the newest libraries that the metadata allow: two toy runs, a language model.

`make test-versions` installs each set into an environment of its own. What is tested is that the
same commands run and that the preflight finds the trainer's log-probabilities exact; numbers differ
between releases in their last digits.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
SETS = Path(os.environ.get("VERSION_SETS", ROOT / ".venv-versions"))
MODEL = Path(os.environ.get("SAGE_SMOLLM2", ROOT / "build/smollm2-135m"))
SUMS = [("3*4=?", "12"), ("5*6=?", "30"), ("2+5=?", "7"), ("9-4=?", "5")]
NOTICES = ("past_key_values",)
"""Names of which newer releases of Transformers give notice, and which TRL does not use itself."""


class Installed:
    """Commands typed in an empty folder, with one set of libraries."""

    def __init__(self, name, folder):
        self.name, self.folder, self.said = name, folder, ""
        self.program = SETS / name / "bin/sage"

    def type(self, *words):
        """Type a command, and return what it prints as JSON."""
        variables = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline"}
        ended = subprocess.run(
            [self.program, *map(str, words), "--json"],
            cwd=self.folder,
            env=os.environ | variables | {"PYTHONPATH": ""},
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-4000:]
        self.said += ended.stderr
        return json.loads(ended.stdout)

    def manifest(self, run):
        return json.loads((self.folder / "runs" / run / "manifest.json").read_text())


@pytest.fixture(params=["oldest", "newest"])
def installed(request, tmp_path):
    if not (SETS / request.param / ".installed").exists():
        pytest.skip(f"the {request.param} set is not installed: make test-versions")
    return Installed(request.param, tmp_path)


def require_exact(manifest):
    """Raise AssertionError unless the preflight compared tokens and all agree in float32."""
    for mode in ("training", "evaluation"):
        found = manifest["preflight"][f"passes/{mode}"]
        assert found["tokens"] >= 8
        assert found["share_above"] == 0


def test_two_toy_runs_are_trained_and_measured(installed):
    checkpointed = ("--set", "rl.gradient_checkpointing=true")
    for words in (("--algo", "dapo", "--guide", "branch"), ("--algo", "grpo", *checkpointed)):
        run = installed.type("rl", *words, "--steps", "2")["id"]
        require_exact(installed.manifest(run))
        curve = installed.type("passk", run, "--k", "1,4", "--n", "4")["curves"][0]
        assert 0 < curve["pass@k"][0] < curve["pass@k"][1] < 1
    # otherwise another environment would be tested than the one that is named
    used, ours = installed.manifest(run)["versions"]["transformers"], version("transformers")
    if installed.name == "oldest":
        assert Version(used) < Version(ours)
    else:
        assert Version(used) >= Version(ours)
    assert not [name for name in NOTICES if f"`{name}`" in installed.said]


def test_an_initial_policy_is_trained_by_sft(installed):
    assert installed.type("sft", "--set", "sft.steps=2")["id"]


def test_a_step_of_a_language_model_with_an_adapter(installed):
    if not (MODEL / "model.safetensors").is_file():
        make = [sys.executable, ROOT / "examples/smollm2/make_model.py", MODEL]
        made = subprocess.run(make, capture_output=True, text=True)
        if made.returncode:
            pytest.skip(f"SmolLM2-135M can't be made here: {made.stderr.strip()[-200:]}")
    rows = [json.dumps({"question": asked, "gold": gold}) + "\n" for asked, gold in SUMS]
    (installed.folder / "rows.jsonl").write_text("".join(rows))
    settings = (
        f"model.path={MODEL}",
        "model.compute_dtype=float32",
        "prompt.format=chat",
        "prompt.system=off",
        "grading.extract=text",
        "grading.mode=math-verify",
        "rl.prompts_per_step=2",
        "rl.rollouts_per_prompt=4",
        "rl.micro_batch=4",
        "rl.stop_when_stuck=false",
        "rollout.max_tokens=24",
    )
    words = [word for setting in settings for word in ("--set", setting)]
    train = ("rl", "-p", "smollm2-135m", "--init", MODEL, "--data", "rows.jsonl")
    run = installed.type(*train, "--guide", "branch", "--steps", "1", *words)["id"]
    require_exact(installed.manifest(run))
    measure = ("passk", run, "--benchmark", "rows.jsonl", "--n", "2", "--k", "1")
    assert installed.type(*measure, "--set", "sampling.max_tokens=8")["curves"]
