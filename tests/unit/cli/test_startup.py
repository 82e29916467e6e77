"""`sage --help` and every command's help load no ML library."""

import json
import subprocess
import sys

HEAVY = ("torch", "trl", "transformers", "datasets", "peft", "wandb", "optuna", "matplotlib")

OWN = ("sage_cli.config.schema", "numpy")
"""Light beside those, but a third of what `--help` takes."""

PROGRAM = """
import json, sys
from typer.testing import CliRunner
from sage_cli.cli.app import app
words = {words!r}
result = CliRunner().invoke(app, words)
print(json.dumps({{"code": result.exit_code, "loaded": sorted(sys.modules)}}))
"""


def loaded(*words):
    """What a command leaves loaded in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(words=list(words))],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["code"] == 0
    return [name for name in (*HEAVY, *OWN) if name in found["loaded"]]


def test_help_loads_no_ml_library():
    assert loaded("--help") == []


def test_settings_and_runs_load_none_either():
    assert loaded("config", "show") == ["sage_cli.config.schema"]
    assert loaded("runs", "list", "--runs", "/nonexistent") == []


def test_a_plan_loads_none_either():
    assert loaded("rl", "--guide", "branch", "--dry-run") == ["sage_cli.config.schema"]
