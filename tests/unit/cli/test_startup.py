"""`sage --help` and every command's help load no ML library."""

import json
import os
import signal
import subprocess
import sys
import warnings

import pytest

from sage_cli.cli import app
from sage_cli.cli.app import COMMANDS

HEAVY = ("torch", "trl", "transformers", "datasets", "peft", "wandb", "optuna", "matplotlib")

OWN = ("sage_cli.config.schema", "numpy")
"""Light beside those, but a third of what `--help` takes."""

PROGRAM = """
import json, sys
from typer.testing import CliRunner
from sage_cli.cli.app import app
codes = [CliRunner().invoke(app, words).exit_code for words in {commands!r}]
print(json.dumps({{"codes": codes, "loaded": sorted(sys.modules)}}))
"""


RUNS = ("runs", "list", "--runs", "/nonexistent")


def loaded(*commands, of=(*HEAVY, *OWN)):
    """Which modules `of` those commands leave loaded, one after the other in a process."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(commands=list(map(list, commands)))],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["codes"] == [0] * len(commands)
    return [name for name in of if name in found["loaded"]]


def test_help_loads_no_ml_library_and_no_command():
    modules = [f"sage_cli.cli.{entry.module}" for entry in COMMANDS.values()]
    assert loaded(("--help",), of=(*HEAVY, *OWN, *modules)) == []
    assert loaded(*([name, "--help"] for name in COMMANDS)) == []


def test_settings_and_runs_load_none_either():
    assert loaded(("config", "show")) == ["sage_cli.config.schema"]
    others = [f"sage_cli.cli.{entry.module}" for name, entry in COMMANDS.items() if name != "runs"]
    assert loaded(RUNS, of=(*HEAVY, *OWN, *others)) == []  # nor another command


def test_a_plan_loads_none_either():
    plans = (
        ("rl", "--guide", "branch"), ("sft",), ("sweep",), ("passk",), ("demo",),
        ("rl", "--measure", "--gpu", "80"),
    )  # fmt: skip
    suites = (("suite", "plan", "paper"), ("suite", "list"))
    for commands in (((*words, "--dry-run") for words in plans), suites):
        assert set(loaded(*commands)) <= {"sage_cli.config.schema", "numpy"}
    paper = ("suite", "plan", "paper", "--preset", "qwen2.5-math-7b", "--runs", "/nonexistent")
    assert loaded(paper) == ["sage_cli.config.schema"]


@pytest.mark.parametrize(
    ("load", "said", "spin"),
    [
        ("0.10 0.2 0.3 1/140 4567", None, "30000"), ("0.10 0.2 0.3 3/140 4567", None, None),
        ("", None, None), ("0.10 0.2 0.3 1/140 4567", "7", "7"),  # what the user says stays
    ],
)  # fmt: skip
def test_threads_wait_awake_only_where_nothing_else_runs(load, said, spin, tmp_path, monkeypatch):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that the test leaves no trace of what is set
        monkeypatch.delenv(name)
    if said:
        monkeypatch.setenv("GOMP_SPINCOUNT", said)
    (tmp_path / "loadavg").write_text(load)
    app.prepare(tmp_path / "loadavg")
    assert os.environ.get("GOMP_SPINCOUNT") == spin
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


def test_a_warning_is_a_line_of_its_words(tmp_path, monkeypatch):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # put back afterwards
    app.prepare(tmp_path / "loadavg")
    said = warnings.formatwarning(UserWarning("no reward"), UserWarning, "rl.py", 7)
    assert said == "warning: no reward\n"


def test_a_background_job_of_a_script_hears_sigint(monkeypatch):
    """Shells start those with SIGINT ignored; SIGHUP stays so, as nohup asks for."""
    numbers, heard = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP), []
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    monkeypatch.setattr(app, "app", lambda _: heard.extend(map(signal.getsignal, numbers)))
    try:
        app.main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert heard[0] is signal.default_int_handler
    assert callable(heard[1])
    assert heard[2] is signal.SIG_IGN
