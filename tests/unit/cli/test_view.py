"""`sage view` on the command line: mistakes, and what it loads."""

import json
import socket
import subprocess
import sys

from typer.testing import CliRunner

from sage_cli.cli.app import app

PROGRAM = """
import sys
from pathlib import Path
from sage_cli.view.api import Api
from sage_cli.view.security import Access
from sage_cli.view.server import application
root = Path("runs")
application(root, Access("127.0.0.1", 1))
for name in ("runs", "sweeps", "suites"):
    Api(root).answer(name, {})
heavy = ("torch", "transformers", "trl", "pandas", "optuna", "matplotlib")
print([name for name in heavy if name in sys.modules])
"""


def typed(*words):
    return CliRunner().invoke(app, ["view", *words, "--json"])


def test_looking_loads_no_model_library(tmp_path):
    (tmp_path / "runs").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_folder_that_is_not_there_is_named(tmp_path):
    done = typed("--runs", str(tmp_path / "nowhere"))
    assert done.exit_code == 2
    assert "there is no folder" in json.loads(done.stdout)["error"]["cause"]


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = typed("--runs", str(tmp_path), "--port", port, "--no-open")
    assert done.exit_code == 2
    error = json.loads(done.stdout)["error"]
    assert port in error["cause"]
    assert "--port" in error["next_step"]


def test_another_host_is_warned_of(tmp_path, monkeypatch):
    monkeypatch.setattr("sage_cli.view.server.serve", lambda *_: None)
    done = CliRunner().invoke(
        app, ["view", "--runs", str(tmp_path), "--host", "0.0.0.0", "--no-open"]
    )
    assert done.exit_code == 0
    assert "warning" in done.stdout
    assert "without encryption" in " ".join(done.stdout.split())
    done = CliRunner().invoke(app, ["view", "--runs", str(tmp_path), "--no-open"])
    assert "warning" not in done.stdout
    assert "token=" in done.stdout


def test_a_browser_is_opened_unless_told_otherwise(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("sage_cli.view.server.serve", lambda *_: None)
    monkeypatch.setattr("webbrowser.open", opened.append)
    typed("--runs", str(tmp_path), "--no-open")
    assert opened == []
    done = typed("--runs", str(tmp_path))
    assert opened == [json.loads(done.stdout)["address"]]


def test_an_export_into_a_folder_of_others_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "runs").mkdir()
    done = typed("--runs", str(tmp_path / "runs"), "--export", str(tmp_path))
    assert done.exit_code == 2
    assert "other things than an export" in json.loads(done.stdout)["error"]["cause"]
