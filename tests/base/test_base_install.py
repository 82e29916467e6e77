"""The base installation, which has no torch: what measures, compares and reports works in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from endpoint import Endpoint, serving
from shown_runs import shown_runs

from sage_cli.cli.app import COMMANDS, TRAINING_LIBRARIES

INSPECT_LOG = Path(__file__).resolve().parents[1] / "data/imported/inspect.eval"
BLOCKING = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(TRAINING_LIBRARIES)}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""
EACH_HELP = """
import sys
from sage_cli.cli.app import COMMANDS, app
for name in COMMANDS:
    try:
        app([name, "--help"])
    except SystemExit as end:
        if end.code:
            sys.exit(f"{name} --help ended with {end.code}")
"""

Typed = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with stored runs, and a file of golds and completions."""
    made = tmp_path_factory.mktemp("base")
    shown_runs(made / "runs")
    (made / "sitecustomize.py").write_text(BLOCKING)
    rows = [{"gold": "1/2", "completion": "0.5"}, {"gold": "3", "completion": "4"}]
    (made / "golds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


@pytest.fixture(scope="module")
def python(folder: Path) -> Typed:
    """Run the interpreter in that folder, where the libraries of training can't be imported."""
    environment = os.environ | {"PYTHONPATH": str(folder), "COLUMNS": "100"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
        )

    return run


def test_no_help_needs_the_libraries_of_training(python: Typed) -> None:
    ended = python("-c", EACH_HELP)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("Usage:") == len(COMMANDS)


@pytest.mark.parametrize(
    "command",
    [
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
    ],
)
def test_what_reads_stored_results_works_without_them(python: Typed, command: str) -> None:
    ended = python("-m", "sage_cli", *command.split())
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_logs_of_other_programs_are_measured_without_them(python: Typed, folder: Path) -> None:
    measured = python("-m", "sage_cli", "passk", str(INSPECT_LOG), "--json")
    # three right of twelve: pass@1 is 3/12; with one right of four a problem, pass@k is k/4
    assert json.loads(measured.stdout)["curves"][0]["pass@k"] == [0.25, 0.5, 0.75, 1.0]
    row = {"question": "3*4=?", "gold": "12", "completion": "12", "correct": True}
    (folder / "own.jsonl").write_text(json.dumps(row) + "\n")
    for words in (
        ("compare", str(INSPECT_LOG), "own.jsonl"),
        ("grade", str(INSPECT_LOG)),
        ("samples", "import", str(INSPECT_LOG), "--as", "theirs"),
        ("passk", "theirs"),
    ):
        ended = python("-m", "sage_cli", *words, "--json")
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_server_samples_without_them(python: Typed, folder: Path) -> None:
    served = Endpoint(models=[{"id": "c", "root": str(folder / "runs/rl-dapo-cccccccc/model")}])
    with serving(served):
        words = ["--limit", "2", "--n", "2", "--k", "1,2", "--set", "sampling.temperature=0.9"]
        words += [
            "--set",
            "sampling.backend=server",
            "--set",
            f"sampling.servers=[{served.address}]",
        ]
        ended = python("-m", "sage_cli", "passk", "rl-dapo-c", *words)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert len([path for path in served.paths if "completions" in path]) == 4  # 2 problems x 2


def test_the_page_is_exported_without_them(python: Typed, folder: Path) -> None:
    ended = python("-m", "sage_cli", "view", "--export", "page")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert (folder / "page/index.html").stat().st_size > 100_000


@pytest.mark.parametrize(
    "command",
    [
        "rl --steps 1",
        "sft",
        "sweep --space tau,rho --trials 1",
        "data probe rl-dapo-c arithmetic --limit 2",
    ],
)
def test_training_names_the_extra_that_it_needs(python: Typed, command: str) -> None:
    ended = python("-m", "sage_cli", *command.split())
    assert ended.returncode == 2
    assert 'pip install "sage-rlvr[train]"' in ended.stdout + ended.stderr
