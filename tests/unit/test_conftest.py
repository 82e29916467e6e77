"""No test reads what stands in the folder, or in the variables, of whoever types the tests."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import copy

import pytest

SEES = """
import os
from pathlib import Path

from sage_cli.settings.own_code import plugin_names
from sage_cli.settings.run import default_root

def test_sees():
    assert default_root() == Path("runs")
    assert not any(Path.cwd().iterdir())
    assert "WANDB_API_KEY" not in os.environ

def test_sees_no_plugins_but_those_that_it_adds(tmp_path, monkeypatch):
    assert plugin_names("sage_cli.guides") == ()
    (tmp_path / "own.dist-info").mkdir()
    (tmp_path / "own.dist-info/METADATA").write_text("Name: own\\nVersion: 1\\n")
    (tmp_path / "own.dist-info/entry_points.txt").write_text("[sage_cli.guides]\\nown = own:Own\\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert plugin_names("sage_cli.guides") == ("own",)
"""


@pytest.fixture(scope="module")
def shared_folder():
    return list(Path.cwd().iterdir())


def test_tests_and_what_they_share_begin_in_empty_folders(shared_folder):
    assert shared_folder == list(Path.cwd().iterdir()) == []


def test_runs_and_variables_of_whoever_types_the_tests_are_not_seen(tmp_path):
    """A session of its own, in a folder with runs, with somebody's variables and packages."""
    for folder in ("runs/rl-demo-12345678", "tests/unit"):
        (tmp_path / folder).mkdir(parents=True)
    copy(Path(__file__).resolve().parents[1] / "conftest.py", tmp_path / "tests")
    (tmp_path / "tests/unit/test_sees.py").write_text(SEES)
    (tmp_path / "left.egg-info").mkdir()
    (tmp_path / "left.egg-info/PKG-INFO").write_text("Name: left\nVersion: 1\n")
    (tmp_path / "left.egg-info/entry_points.txt").write_text("[sage_cli.guides]\nopening = a:B\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--rootdir", tmp_path, "tests"],
        env={
            **os.environ,
            "SAGE_RUNS": "/somebody's",
            "WANDB_API_KEY": "0" * 40,
            "PYTHONPATH": str(tmp_path),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "2 passed" in done.stdout, done.stdout
