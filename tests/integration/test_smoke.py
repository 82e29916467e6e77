"""The whole loop as typed, on a model of a few thousand weights: sft, rl, passk, eval, sweep.

What a process boundary matters for (Ctrl-C, exit codes, a clean stdout) is typed in processes of
their own; the rest runs in this one, which has loaded the libraries already.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from offline_wandb import read_offline
from small import write_small
from toy_policy import timeless
from typer.testing import CliRunner
from warm import Warm

from sage_cli.cli.app import app
from sage_cli.store.file_names import portable
from sage_cli.store.json_files import read_object
from sage_cli.store.run import Run

pytestmark = pytest.mark.slow

MORE = """
sft: {steps: 60, batch_size: 32, max_length: 48, learning_rate: 1.0e-2, save_every: 1000}
rl: {steps: 12, prompts_per_step: 4, rollouts_per_prompt: 4, save_every: 2, stop_when_stuck: false}
anchor: {beta: 0.4}
evaluation: {samples: 8, k: 1..8, bootstrap: 100}
sweep: {samples: 8, objective: [pass@1, pass@8], steps: 2}
tracking: {wandb: off}
"""
SPACE = """
guide: branch
parameters:
  tau: {key: guide.tau, values: [0.1, 0.5]}
  rho: {key: guide.rho, values: [0.3, 0.8]}
"""
PRESETS = ("--preset", "tiny", "--preset", "small.yaml")
RL = (
    "rl",
    *PRESETS,
    "--algo",
    "dapo",
    "--guide",
    "branch",
    "--set",
    "tracking.wandb=offline",
)
SWEEP = ("sweep", *PRESETS, "--space", "space.yaml")


@dataclass
class Lab:
    """A folder where commands are typed."""

    folder: Path
    warm: Warm

    def start(self, *words, cold=False):
        """The command line in a process group of its own as a terminal gives it."""
        sage = str(Path(sys.executable).with_name("sage")) if cold else self.warm.sage
        return subprocess.Popen(
            [sage, *words],
            cwd=self.folder,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def stopped(self, process, number, files):
        """Send a command's group a signal once the files have five steps: what it printed."""
        deadline = time.monotonic() + 240
        while sum(len(path.read_text().splitlines()) for path in self.folder.glob(files)) < 5:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(process.pid, number)
        return "".join(process.communicate(timeout=120))

    def process(self, *words):
        """Type a command with --json and return the one object on its stdout."""
        started = self.start(*words, "--json")
        out, errors = started.communicate(timeout=300)
        assert started.returncode == 0, errors
        return json.loads(out)

    def here(self, *words, code=0):
        """Type a command in this process: its result, with what it printed."""
        with contextlib.chdir(self.folder):
            result = CliRunner().invoke(app, list(words), catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    def json(self, *words):
        """As `here`, with --json: the object that it printed."""
        return json.loads(self.here(*words, "--json").stdout)

    def records(self, run):
        """metrics.jsonl of a run."""
        return Run(self.folder / "runs" / run).metrics.read()


def squeezed(said):
    """On one line, without the frames of panels."""
    return " ".join(said.replace("│", " ").split())


@pytest.fixture(scope="module")
def lab(tmp_path_factory, warm):
    folder = tmp_path_factory.mktemp("lab")
    write_small(folder, MORE)
    (folder / "space.yaml").write_text(SPACE)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in the processes
    yield Lab(folder, warm)
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def trained(lab):
    """RL in an empty folder, interrupted after some steps, then the same command again.

    `base` is the manifest of the base that the first command trained on its way.
    """
    started = lab.start(*RL, cold=True)
    output = lab.stopped(started, signal.SIGINT, "runs/rl-*/metrics.jsonl")
    (run,) = map(Run, (lab.folder / "runs").glob("rl-*"))
    left = {"status": run.read().status, "steps_before": len(run.metrics.read())}
    again = lab.start(*RL, "--json")
    manifest, said_again = again.communicate(timeout=300)
    assert again.returncode == 0, said_again
    return SimpleNamespace(
        code=started.returncode,
        output=output,
        said_again=said_again,
        manifest=json.loads(manifest),
        base=lab.json("sft", *PRESETS),
        **left,
    )


@pytest.fixture(scope="module")
def swept(lab, trained):
    return lab.process(*SWEEP)


@pytest.fixture(scope="module")
def curves(lab, swept):
    return lab.json("passk", "--k", "1..8", "--n", "8")


def test_a_missing_base_is_trained_first_and_once(lab, trained):
    base = trained.base
    assert (base["kind"], base["status"], base["parent"]) == ("sft", "finished", None)
    assert len(list(lab.folder.glob("runs/sft-*"))) == 1
    records = lab.records(base["id"])
    assert [record["step"] for record in records] == list(range(1, 61))
    assert records[-1]["loss"] < 0.5 * records[0]["loss"]
    assert "is trained already" in lab.here("sft", *PRESETS).output


def test_ctrl_c_leaves_a_run_that_the_same_command_continues(lab, trained):
    assert trained.code == 130
    assert "Traceback" not in trained.output
    saved = f"is saved at step {trained.steps_before}; the same command again continues"
    assert saved in squeezed(trained.output)
    assert f"continues from step {trained.steps_before}" in squeezed(trained.said_again)
    assert trained.status == "interrupted"
    assert 5 <= trained.steps_before < 12
    manifest = trained.manifest
    assert (manifest["status"], manifest["reason"]) == ("finished", None)
    assert manifest["parent"] == trained.base["id"]
    assert [record["step"] for record in lab.records(manifest["id"])] == list(range(1, 13))
    mirror = read_offline(lab.folder / "runs" / manifest["id"])
    assert list(mirror.history) == list(range(1, 13))
    assert list(mirror.tables) == [1, 11]
    assert [len(rows) for rows in mirror.tables.values()] == [4, 4]
    assert (mirror.job, mirror.config["rl"]["algo"]) == ("rl", "dapo")


def test_starting_over_without_an_interruption_gives_the_same_records(lab, trained, curves):
    interrupted = lab.records(trained.manifest["id"])
    again = lab.json(*RL, "--fresh")
    assert again["id"] == trained.manifest["id"]
    assert again["created"] > trained.manifest["ended"]
    assert timeless(lab.records(again["id"])) == timeless(interrupted)


def test_adapters_on_a_base_from_scratch(lab, trained):
    lora = ("--set", "model.tuning=lora", "--set", "model.lora.rank=2")
    command = ("rl", *PRESETS, "--guide", "branch", "--steps", "2", *lora)
    run = lab.json(*command)
    assert run["parent"] == trained.base["id"]  # the same base: it is always trained in full
    folder = lab.folder / "runs" / run["id"] / "model"
    assert (folder / "adapter_config.json").is_file()
    measured = lab.json("passk", run["id"], "--n", "2", "--k", "1,2")
    assert [curve["policy"] for curve in measured["curves"]] == [run["id"]]
    refused = lab.here("rl", *PRESETS, "--init", run["id"], "--full", "--steps", "2", code=2)
    assert "is a LoRA adapter" in refused.output
    shutil.rmtree(folder.parent)


def test_a_sweep_measures_every_trial(lab, trained, swept):
    assert len(swept["trials"]) == 4
    assert {tuple(trial["settings"].values()) for trial in swept["trials"]} == {
        (0.1, 0.3),
        (0.1, 0.8),
        (0.5, 0.3),
        (0.5, 0.8),
    }
    folder = lab.folder / swept["folder"]
    assert {**read_object(folder / "sweep.json", ""), "folder": swept["folder"]} == swept
    assert {"sweep.csv", "sweep.md", "heatmap.png"} <= {path.name for path in folder.iterdir()}
    for trial in swept["trials"]:
        assert 0 <= trial["values"]["pass@1"] <= trial["values"]["pass@8"] <= 1
        (name,) = trial["runs"]
        run = lab.folder / "runs" / name
        assert json.loads((run / "manifest.json").read_text())["sweep"] == folder.name
        tracking = json.loads((run / "config.json").read_text())["tracking"]
        assert tracking["group"] == folder.name  # one group in W&B
        assert len(lab.records(name)) == 2
    again = lab.here(*SWEEP).output
    assert "begun" not in again
    assert again.count("found in the store") == 0  # what the study knows isn't asked for again


def test_passk_measures_the_latest_run_that_is_no_trial(lab, trained, curves):
    (curve,) = curves["curves"]
    assert curve["policy"] == trained.manifest["id"]
    assert curves["k"] == list(range(1, 9))
    values = curve["pass@k"]
    assert values == sorted(values)
    assert all(
        low <= v <= high for low, v, high in zip(curve["low"], values, curve["high"], strict=True)
    )
    (seed,) = curve["seeds"]
    assert [problem["n"] for problem in seed["problems"]] == [8] * 4
    assert sum(seed["statuses"].values()) == 32
    assert seed["statuses"].get("right", 0) == sum(problem["c"] for problem in seed["problems"])
    # pass@1 is the mean of c / n over problems
    assert values[0] == pytest.approx(seed["statuses"].get("right", 0) / 32, abs=1e-12)
    files = {path.name for path in (lab.folder / curves["folder"]).iterdir()}
    assert {"passk.json", "passk.csv", "passk.png"} <= files


def test_what_was_measured_is_kept_with_the_runs_and_mirrored(lab, trained, swept, curves):
    # a run that was started over has forgotten what the one before was found to be
    (curve,) = lab.json("passk", trained.manifest["id"], "--k", "1..8", "--n", "8")["curves"]
    assert curve["pass@k"] == curves["curves"][0]["pass@k"]
    found = read_offline(lab.folder / "runs" / trained.manifest["id"]).summary
    for k in (1, 2, 4, 8):
        value = found[f"eval/{portable(curve['benchmark'])}/pass@{k}"]
        assert value == pytest.approx(curve["pass@k"][k - 1], abs=1e-12)
    for trial in swept["trials"]:
        (path,) = (lab.folder / "runs" / trial["runs"][0] / "evaluations").iterdir()
        kept = json.loads(path.read_text())
        assert kept["pass@8"] == pytest.approx(trial["values"]["pass@8"], abs=1e-12)


def test_eval_and_more_samples_use_what_is_there(lab, trained, curves):
    name = trained.manifest["id"]
    table = lab.here("eval", name, "--n", "8", "--k", "1,8").output
    assert "n 8" in table
    assert f"sample {name}" not in table  # nothing was drawn
    more = lab.here("passk", name, "--n", "12", "--k", "1..12").output
    assert f"sample {name}: 48 samples, 32 of them done already" in more
    both = lab.json("passk", name, trained.base["id"], "--n", "8", "--k", "1,8")
    assert [curve["policy"] for curve in both["curves"]] == [name, trained.base["id"]]
    assert both["curves"][0]["pass@k"][0] == curves["curves"][0]["pass@k"][0]


def test_sigterm_while_the_base_is_trained_saves_the_base(lab):
    words = (*RL[:-2], "--runs", "stopped", "--steps", "2", "--set", "sft.steps=150")
    started = lab.start(*words)
    output = lab.stopped(started, signal.SIGTERM, "stopped/sft-*/metrics.jsonl")
    assert started.returncode == 143, output
    (base,) = map(Run, (lab.folder / "stopped").glob("sft-*"))
    assert not list((lab.folder / "stopped").glob("rl-*"))
    steps = len(base.metrics.read())
    assert 5 <= steps < 150
    assert f"{base.id} is saved at step {steps};" in squeezed(output)
    assert f"{base.id}: continues from step {steps}" in squeezed(lab.here(*words).output)
    assert len(base.metrics.read()) == 150
