"""What commands load, what they set before, and what they hear."""

import os
import signal
from pathlib import Path

import pytest

from sage_cli.cli import app
from sage_cli.cli.listing import COMMANDS

HEAVY = {"torch", "trl", "transformers", "datasets", "peft", "wandb", "optuna", "matplotlib"}
HEAVY |= {"pandas"}
OWN = {"sage_cli.config.schema", "numpy"}
"""Light beside those, but a third of what `--help` takes."""
EACH = {f"sage_cli.cli.{name}" for name in COMMANDS}
PAPER = ["suite", "plan", "paper", "--preset", "qwen2.5-math-7b", "--runs", "/nonexistent"]
PLANS = ("rl --guide branch", "sft", "sweep", "passk", "demo", "rl --measure --gpu 80")


@pytest.mark.parametrize(
    ("commands", "may_load"),
    [
        ([["--help"]], set()),
        ([["runs", "list", "--runs", "/nonexistent"]], {"sage_cli.cli.runs"}),
        ([[name, "--help"] for name in COMMANDS], EACH),
        ([["config", "show"], PAPER], EACH | {"sage_cli.config.schema"}),
        ([[*words.split(), "--dry-run"] for words in PLANS], EACH | OWN),
        ([["suite", "plan", "paper"], ["suite", "list"]], EACH | OWN),
    ],
    ids=["help", "runs", "help of each", "settings", "plans", "suites"],
)
def test_no_command_loads_a_library_of_models_or_another_command(alone, commands, may_load):
    modules, _ = alone(*commands)
    assert modules & (HEAVY | OWN | EACH) <= may_load


def test_looking_at_runs_loads_no_library_of_models(alone):
    Path("runs").mkdir()
    modules, _ = alone(["view", "--export", "page"], first="import sage_cli.view.page_server")
    assert not modules & HEAVY


IDLE = "0.10 0.2 0.3 1/140 4567"


@pytest.mark.parametrize(
    ("load", "before", "spin"),
    [
        (IDLE, None, "30000"),
        (IDLE, "7", "7"),
        ("0.10 0.2 0.3 3/140 4567", None, None),
        ("", None, None),
    ],
)
def test_threads_wait_awake_only_where_nothing_else_runs(load, before, spin, tmp_path, monkeypatch):
    """What the user says of them stays."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that the test leaves no trace of what is set
        monkeypatch.delenv(name)
    if before:
        monkeypatch.setenv("GOMP_SPINCOUNT", before)
    (tmp_path / "loadavg").write_text(load)
    app.prepare(tmp_path / "loadavg")
    assert os.environ.get("GOMP_SPINCOUNT") == spin
    assert before or os.environ["OMP_WAIT_POLICY"] == "PASSIVE"


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
