"""The base installation, which has no torch: what measures, compares and reports works in it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from endpoint import Endpoint, serving
from shown_runs import shown_runs

from sage_cli.cli.app import TRAINING_LIBRARIES
from sage_cli.cli.listing import COMMANDS

INSPECT_LOG = Path(__file__).resolve().parents[1] / "data/imported/inspect.eval"
BLOCKING = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(TRAINING_LIBRARIES)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
EACH = """
import sys
from sage_cli.cli.app import app
for words in sys.argv[1:]:
    try:
        app(words.split())
    except SystemExit as end:
        if end.code:
            sys.exit(f"{words} ended with {end.code}")
"""
READING = (
    "passk rl-dapo-branch --k 1..8 --json",
    "passk rl-dapo-c --dry-run",
    "eval rl-dapo-branch rl-dapo-c --json",
    "compare rl-dapo-branch rl-dapo-c --json",
    "power rl-dapo-c --json",
    "grade golds.jsonl --json",
    "samples show rl-dapo-branch --json",
    "analyze majority rl-dapo-branch --json",
    "runs list --json",
    "suite plan demo --json",
    "sweep --space tau,rho --dry-run",
    "rl --algo dapo --guide branch --dry-run",
    "data list --json",
    "config show --json",
    "view --export page",
)
LOGS = (
    f"compare {INSPECT_LOG} own.jsonl --json",
    f"grade {INSPECT_LOG} --json",
    f"samples import {INSPECT_LOG} --as theirs --json",
    "passk theirs --json",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with stored runs, and a file of golds and completions."""
    made = tmp_path_factory.mktemp("base")
    shown_runs(made / "runs")
    (made / "sitecustomize.py").write_text(BLOCKING)
    rows = [{"gold": "1/2", "completion": "0.5"}, {"gold": "3", "completion": "4"}]
    (made / "golds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


@pytest.fixture(scope="module")
def python(folder):
    """Run the interpreter in that folder, where the libraries of training can't be imported."""
    environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "100"}

    def run(*words):
        return subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
        )

    return run


def test_no_help_and_nothing_that_reads_stored_results_needs_them(python, folder):
    helps = python("-c", EACH, *(f"{name} --help" for name in COMMANDS))
    assert helps.returncode == 0, helps.stderr
    assert helps.stdout.count("Usage:") == len(COMMANDS)
    read = python("-c", EACH, *READING)
    assert read.returncode == 0, read.stdout + read.stderr
    assert (folder / "page/index.html").stat().st_size > 100_000


def test_logs_of_other_programs_are_measured_without_them(python, folder):
    measured = python("-m", "sage_cli", "passk", str(INSPECT_LOG), "--json")
    # three right of twelve: pass@1 is 3/12; with one right of four a problem, pass@k is k/4
    assert json.loads(measured.stdout)["curves"][0]["pass@k"] == [0.25, 0.5, 0.75, 1.0]
    row = {"question": "3*4=?", "gold": "12", "completion": "12", "correct": True}
    (folder / "own.jsonl").write_text(json.dumps(row) + "\n")
    ended = python("-c", EACH, *LOGS)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_server_samples_without_them(python, folder):
    served = Endpoint(models=[{"id": "c", "root": str(folder / "runs/rl-dapo-cccccccc/model")}])
    with serving(served):
        words = ["--limit", "2", "--n", "2", "--k", "1,2", "--set", "sampling.temperature=0.9"]
        words += ["--set", "sampling.backend=server"]
        words += ["--set", f"sampling.servers=[{served.address}]"]
        ended = python("-m", "sage_cli", "passk", "rl-dapo-c", *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len([path for path in served.paths if "completions" in path]) == 4  # 2 problems x 2


@pytest.mark.parametrize(
    "command",
    [
        "rl --steps 1",
        "sft",
        "sweep --space tau,rho --trials 1",
        "data probe rl-dapo-c arithmetic --limit 2",
    ],
)
def test_training_names_the_extra_that_it_needs(python, command):
    ended = python("-m", "sage_cli", *command.split())
    assert ended.returncode == 2
    assert 'pip install -e ".[train]"' in ended.stdout + ended.stderr
