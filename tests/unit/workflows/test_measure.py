"""`sage rl --measure` and `sage sft --measure`: trained, measured, kept, and found again."""

import json
import subprocess
import sys

import pytest
import wandb
from offline_wandb import read_offline

from sage_cli.config.load import changed, load
from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.errors import DataError
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.final import FinalMeasurement
from sage_cli.evaluation.kept import figures
from sage_cli.evaluation.stored import stored_counts
from sage_cli.policies.policy import Policy
from sage_cli.progress import Silent
from sage_cli.store.evaluations import evaluation_figures
from sage_cli.store.run import Run
from sage_cli.workflows.rl import planned_parent, planned_policy, rl
from sage_cli.workflows.sft import sft

SETTINGS = {
    "model.hidden": 16, "model.layers": 1, "model.heads": 2, "model.feed_forward": 32,
    "model.max_positions": 96, "data.arithmetic.low": 2, "data.arithmetic.high": 6,
    "data.arithmetic.held_out": 4, "data.arithmetic.development": 2,
    "data.arithmetic.familiar_share": 0.5,
    "data.arithmetic.phases": [{"share": 1.0, "mix": {"D": 1}}],
    "sft.steps": 20, "sft.batch_size": 4, "sft.max_length": 48, "rl.steps": 1,
    "rl.prompts_per_step": 2, "rl.rollouts_per_prompt": 2, "rollout.max_tokens": 8,
    "sampling.max_tokens": 8, "evaluation.samples": 2, "evaluation.k": "1,2",
    "grading.workers": 1,
}  # fmt: skip

AGAIN = """
import json, sys
from pathlib import Path
from typer.testing import CliRunner
from sage_cli.cli.app import app
result = CliRunner().invoke(app, sys.argv[1:])
heavy = [name for name in ("torch", "transformers", "wandb") if name in sys.modules]
print(json.dumps({"code": result.exit_code, "heavy": heavy, "said": result.stdout}))
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    root = tmp_path_factory.mktemp("lab") / "runs"
    return changed(load().config, {**SETTINGS, "run.root": str(root)})


@pytest.fixture(scope="module")
def base(config):
    return sft(changed(config, {"tracking.wandb": "off"}), Silent(), measure=True)


@pytest.fixture(scope="module")
def policy(config, base):
    """Trained and measured in one go, and how often W&B's run was begun for that."""
    begun = []
    with pytest.MonkeyPatch.context() as patch:
        init = wandb.init
        patch.setattr(wandb, "init", lambda *a, **k: begun.append(k["id"]) or init(*a, **k))
        run = rl(config, Silent(), measure=True)
    return run, begun


def counted(config, run):
    """The figures that the stored counts lead to."""
    recipe = EvaluationRecipe.of(config)
    (benchmark,) = load_benchmarks(recipe.evaluation, recipe.data)
    (counts,) = stored_counts(Policy.of_run(run), benchmark, recipe, config.run.root, (2,))[2]
    assert counts.n_P.tolist() == [2] * 4
    one = type("Seed", (), {"counts": counts})
    return {f"eval/arithmetic/{name}": value for name, value in figures([one], recipe).items()}


def test_what_is_stored_of_it_is_what_its_run_keeps(config, base, policy):
    for run in (base, policy[0]):
        assert run.finished
        assert evaluation_figures(run) == counted(config, run)


def test_wandb_is_begun_once_and_holds_steps_and_figures(policy):
    run, begun = policy
    assert begun == [run.id]
    offline = read_offline(run.folder)
    kept = evaluation_figures(run)
    assert {name: offline.summary[name] for name in kept} == kept
    assert [step for step, _ in offline.of("loss")] == [1]


def test_typed_again_it_ends_at_once(config, policy, tmp_path):
    stored = tmp_path / "config.json"
    stored.write_text(json.dumps(config.model_dump(mode="json")))
    words = ["rl", "--config", str(stored), "--runs", str(config.run.root), "--measure", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", AGAIN, *words], capture_output=True, text=True, check=True
    )
    again = json.loads(done.stdout)
    assert again["code"] == 0
    assert again["heavy"] == []
    said = json.loads(again["said"][again["said"].index("{") :])
    assert said["id"] == policy[0].id
    assert said["evaluations"] == evaluation_figures(policy[0])


def test_a_broken_benchmark_is_named_before_anything_is_trained(config, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"question": "1+1=?", "gold": ""}\n')
    there = {"run.root": str(tmp_path / "runs"), "evaluation.benchmark": str(rows)}
    for train in (rl, sft):
        with pytest.raises(DataError):
            train(changed(config, there), Silent(), measure=True)
    assert not (tmp_path / "runs").exists()


def test_what_several_processes_trained_their_command_measures(config, base, monkeypatch):
    several = changed(config, {"rl.processes": 2, "tracking.wandb": "off"})
    run = planned_policy(several).run
    assert planned_parent(several, None).run == base

    def train(*_):
        with run.recording({}, kind="rl"):
            run.model.mkdir(parents=True)

    taken: list[Run] = []
    monkeypatch.setattr("sage_cli.training.launch.run_together", train)
    monkeypatch.setattr(FinalMeasurement, "take", lambda self, run, _: taken.append(run))
    assert rl(several, Silent(), measure=True) == run
    assert taken == [run]
