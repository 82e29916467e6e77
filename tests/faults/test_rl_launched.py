"""`sage rl` in several processes, launched by itself or by torchrun, and on reference samples."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from free_port import free_port
from offline_wandb import read_offline
from pyarrow.parquet import read_metadata
from safetensors.torch import load_file
from toy_policy import base, tokenizer, weights
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.store.run import Run
from sage_cli.training.checkpoints import saved_step
from sage_cli.training.launch import WATCHDOG_VARIABLE

__all__ = ["base", "tokenizer"]
pytestmark = pytest.mark.slow

SMALL = """
model: {hidden: 16, layers: 2, heads: 2, feed_forward: 32}
data: {arithmetic: {low: 2, high: 9, held_out: 4, validation: 4}}
rl: {steps: 3, prompts_per_step: 4, rollouts_per_prompt: 4, save_every: 2, stop_when_stuck: false}
rollout: {max_tokens: 12}
sampling: {max_tokens: 12}
tracking: {wandb: "off"}
"""


def start(folder, launcher, *arguments, **more):
    """Type `sage rl` in a folder; what it prints on either stream is one text."""
    (folder / "small.yaml").write_text(SMALL)
    command = [sys.executable, *launcher, "rl", "--preset", "tiny", "--preset", "small.yaml"]
    return subprocess.Popen(
        [*command, *arguments],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **more,
    )


def typed(folder, launcher, *arguments):
    """What it printed until it had finished."""
    process = start(folder, launcher, *arguments)
    said, _ = process.communicate(timeout=400)
    assert process.returncode == 0, said[-2000:]
    return said


@pytest.fixture(scope="module", autouse=True)
def _processes_begin_warm(warm):
    """Those that torchrun starts of the command line, by `sage` or typed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHON_EXEC", warm.python)
        yield


@pytest.fixture
def begin():
    """The same, not waited for, in a process group of its own as a terminal gives it."""
    begun = []

    def in_a_group(folder, *arguments):
        heard = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)}
        begun.append(start(folder, SCRIPT, *arguments, start_new_session=True, **heard))
        return begun[-1]

    yield in_a_group
    for process in begun:
        if process.poll() is None:
            process.kill()
            process.communicate()


def members(folder):
    """The processes that were launched to train below `folder`, and live."""
    mark, found = f"{WATCHDOG_VARIABLE}={folder.resolve()}/".encode(), set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(v.startswith(mark) for v in (process / "environ").read_bytes().split(b"\0")):
                found.add(int(process.name))
    return found


def until(condition, process=None):
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.01)


def lines(folder):
    """What the only run of RL in a folder has recorded, also while it is recording."""
    files = folder.glob("runs/rl-*/metrics.jsonl")
    return [line for file in files for line in file.read_text().splitlines()]


def records(folder):
    return [json.loads(line) for line in lines(folder)]


SCRIPT = ["-c", "from sage_cli.cli.app import main; main()"]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
NOISY = (
    "--guide",
    "random",
    "--set",
    "guide.epsilon=[1,1]",
    "--full",
    "--beta",
    "1",
    "--steps",
    "4",
)
"""With noise on every token's anchor, so that the weights move without a right answer."""


def model(folder):
    """The model that the only run of RL in a folder ended with."""
    (trained,) = folder.glob("runs/rl-*/model")
    return trained


def assert_trained_alike(folder, other):
    assert [record["step"] for record in records(folder)] == [1, 2, 3, 4]
    assert weights(model(folder)) == weights(model(other))


@pytest.fixture(scope="module")
def launched(base, tmp_path_factory):
    """A folder where `sage rl --processes 2` was typed, mirrored offline."""
    folder = tmp_path_factory.mktemp("launched")
    mirrored = ("--set", "tracking.wandb=offline")
    typed(folder, SCRIPT, *NOISY, "--processes", "2", "--init", str(base), *mirrored)
    return folder


def test_processes_train_together_and_are_one_run(launched, base):
    trained, initial = (
        load_file(folder / "model.safetensors") for folder in (model(launched), base)
    )
    assert max((trained[name] - initial[name]).abs().max().item() for name in trained) > 1e-5
    assert [record["step"] for record in records(launched)] == [1, 2, 3, 4]
    (run,) = launched.glob("runs/rl-*")
    rows = Run(run).ledger.read().to_pylist()
    for record in records(launched):  # of both processes
        own = [row for row in rows if row["step"] == record["step"]]
        assert sum(row["tokens"] for row in own) == record["sampled/tokens"]
        right, sampled = (sum(row[name] for row in own) for name in ("right", "n"))
        assert (right / sampled, sampled) == (
            pytest.approx(record["reward"]),
            record["sampled/completions"],
        )
    manifest = json.loads((run / "manifest.json").read_text())
    assert (manifest["status"], manifest["kind"]) == ("finished", "rl")
    mirror = read_offline(run)
    assert list(mirror.history) == [1, 2, 3, 4]
    assert [(step, len(rows)) for step, rows in mirror.tables.items()] == [(1, 2)]


def test_torchrun_trains_the_same(launched, tmp_path, base):
    program = tmp_path / "sage.py"
    program.write_text(SCRIPT[1])
    typed(tmp_path, [*TORCHRUN, str(program)], *NOISY, "--init", str(base))
    assert_trained_alike(tmp_path, launched)
    (one,), (two,) = (folder.glob("runs/rl-*") for folder in (launched, tmp_path))
    assert one.name == two.name  # one identity, whoever launched


def test_two_nodes_train_the_same(launched, tmp_path, base):
    """An agent of torchrun on each of two nodes, which here are both this machine."""
    nodes = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc_per_node", "1"]
    nodes += ["--master_addr", "127.0.0.1", "--master_port", str(free_port()), "--node_rank"]
    agents = [
        start(tmp_path, [*nodes, rank, "-m", "sage_cli"], *NOISY, "--init", str(base))
        for rank in ("0", "1")
    ]
    outputs = [agent.communicate(timeout=400)[0] for agent in agents]
    assert [agent.returncode for agent in agents] == [0, 0], "\n".join(outputs)[-3000:]
    assert_trained_alike(tmp_path, launched)


def test_accelerates_ddp_goes_on_with_what_was_interrupted(launched, tmp_path, base):
    shutil.copytree(launched / "runs", tmp_path / "runs")
    (run,) = tmp_path.glob("runs/rl-*")
    for later in ("model", "checkpoints/checkpoint-4"):
        shutil.rmtree(run / later)
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["checksum"]
    (run / "manifest.json").write_text(json.dumps(manifest | {"status": "running"}))
    ddp = ("--processes", "2", "--accelerate", "ddp", "--init", str(base))
    typed(tmp_path, SCRIPT, *NOISY, *ddp)
    assert_trained_alike(tmp_path, launched)


@pytest.mark.timeout(1200)
def test_interrupted_processes_lose_nothing_and_end_as_one(tmp_path, base, begin):
    """Two runs of one identity, interrupted in all ways at different steps: the same weights."""
    rarely = (
        "--steps",
        "60",
        "--set",
        "rl.save_every=100",
        "--processes",
        "2",
        "--init",
        str(base),
    )
    killed, ddp = tmp_path / "killed", tmp_path / "ddp"
    for folder in (killed, ddp):
        folder.mkdir()

    command = begin(killed, *NOISY[:-2], *rarely)
    until(lambda: len(lines(killed)) >= 3, command)
    before = members(killed)
    command.kill()
    command.communicate()
    assert len(before) >= 3  # the launcher, and two that train
    until(lambda: not members(killed))
    (run,) = map(Run, killed.glob("runs/rl-*"))
    assert run.read().status == "interrupted"
    first = lines(killed)[0]

    command = begin(killed, *NOISY[:-2], *rarely)  # the next start meets nobody
    # from the start, since nothing was saved: step 1 is recorded again, with other times
    until(lambda: len(lines(killed)) >= 5 and lines(killed)[0] != first, command)
    command.terminate()
    said, _ = command.communicate(timeout=120)
    assert command.returncode == 143, said
    saved = len(lines(killed))
    assert f"is saved at step {saved}; the same command again continues" in words(said)
    assert saved_step(run.checkpoints) == saved < 60
    assert (run.read().status, run.read_manifest()["reason"]) == (
        "interrupted",
        "interrupted by SIGTERM",
    )
    assert not members(killed)

    command = begin(ddp, *NOISY[:-2], *rarely, "--accelerate", "ddp")
    until(lambda: len(lines(ddp)) >= 8, command)
    os.killpg(command.pid, signal.SIGINT)
    said, _ = command.communicate(timeout=120)
    assert command.returncode == 130, said
    assert f"is saved at step {len(lines(ddp))}; " in words(said)

    for folder in (killed, ddp):
        at, said = len(lines(folder)), typed(folder, SCRIPT, *NOISY[:-2], *rarely)
        assert f"continues from step {at}" in words(said)
        assert [record["step"] for record in records(folder)] == list(range(1, 61))
    assert weights(model(killed)) == weights(model(ddp))


def words(said):
    """On one line, as a terminal's width doesn't matter."""
    return " ".join(said.split())


def test_forward_kl_draws_its_samples_once(tmp_path, base, monkeypatch):
    (tmp_path / "small.yaml").write_text(SMALL)
    monkeypatch.chdir(tmp_path)
    common = [
        "rl",
        "--preset",
        "tiny",
        "--preset",
        "small.yaml",
        "--init",
        str(base),
        "--kl",
        "forward",
        "--full",
        "--set",
        "anchor.reference_samples=2",
    ]
    first = CliRunner().invoke(app, common)
    assert first.exit_code == 0, first.output
    assert "sample base" in first.output
    assert all("kl/forward" in record for record in records(tmp_path))
    planned = CliRunner().invoke(app, [*common, "--set", "rl.learning_rate=0.1", "--dry-run"])
    # 3 steps of 4 prompts, of more than twice as many problems
    assert "0 of 24 to sample, 2 of each of 12" in words(planned.output)
    parts = (tmp_path / "runs" / "samples").glob("*/*.parquet")
    assert sum(read_metadata(part).num_rows for part in parts) == 24
    again = CliRunner().invoke(app, [*common, "--seed", "1", "--fresh"])
    assert again.exit_code == 0, again.output
