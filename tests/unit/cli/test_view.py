"""`sage view` on the command line: what a name means, mistakes, and what it loads."""

import json
import socket
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from shown_runs import shown_runs
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.cli.view import named
from sage_cli.errors import StoreError

PROGRAM = """
import sys
from pathlib import Path
from sage_cli.view.api import Api
from sage_cli.view.page_server import Access
from sage_cli.view.page_server import application
root = Path("runs")
application(root, Access(1))
for name in ("runs", "sweeps", "suites"):
    Api(root).answer(name, {})
heavy = ("torch", "transformers", "trl", "pandas", "optuna", "matplotlib")
print([name for name in heavy if name in sys.modules])
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return shown_runs(tmp_path_factory.mktemp("shown") / "runs")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        (None, (None, "")),
        ("branch", ("run", "rl-dapo-branch-bbbbbbbb")),
        ("tau", ("sweep", "tau-rho-12345678")),
        ("demo", ("suite", "demo-12345678")),
    ],
)
def test_a_part_of_a_name_is_enough(shown, name, meant):
    assert named(shown, name) == meant


def test_an_ambiguous_name_is_refused(shown):
    with pytest.raises(StoreError, match="'rl-' fits 3"):
        named(shown, "rl-")
    with pytest.raises(StoreError, match="there is no run, sweep or suite 'nothing'"):
        named(shown, "nothing")


def test_the_address_and_an_export_begin_with_what_was_named(shown, tmp_path, monkeypatch):
    monkeypatch.setattr("sage_cli.view.page_server.serve", lambda *_: None)
    done = typed("demo", "--runs", str(shown), "--no-open")
    assert json.loads(done.stdout)["address"].endswith("#/suite?suite=demo-12345678")
    done = typed("demo", "--runs", str(shown), "--export", str(tmp_path / "page"))
    page = (tmp_path / "page" / "index.html").read_text()
    assert json.loads(done.stdout)["bytes"] == len(page.encode())
    held = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert held["begin"] == "#/suite?suite=demo-12345678"


def typed(*words):
    return CliRunner().invoke(app, ["view", *words, "--json"])


def test_looking_loads_no_model_library(tmp_path):
    (tmp_path / "runs").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def refused(*words):
    """The error of a command that is refused."""
    done = typed(*words)
    assert done.exit_code == 2
    return json.loads(done.stdout)["error"]


def test_folders_that_are_not_there_or_another_s_are_named(tmp_path):
    assert "there is no folder" in refused("--runs", str(tmp_path / "nowhere"))["cause"]
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "runs").mkdir()
    error = refused("--runs", str(tmp_path / "runs"), "--export", str(tmp_path))
    assert "other things than an export" in error["cause"]


def test_a_port_that_is_taken_is_named(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        error = refused("--runs", str(tmp_path), "--port", port, "--no-open")
    assert port in error["cause"]
    assert "--port" in error["next_step"]


def test_a_browser_is_opened_unless_told_otherwise(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("sage_cli.view.page_server.serve", lambda *_: None)

    def look(address):
        """What a browser is started with, which `ps` shows, and what it finds there."""
        file = Path(urlsplit(address).path)
        opened.append((address, stat.S_IMODE(file.stat().st_mode), file.read_text()))

    monkeypatch.setattr("webbrowser.open", look)
    typed("--runs", str(tmp_path), "--no-open")
    assert opened == []
    done = typed("--runs", str(tmp_path))
    ((argument, mode, page),) = opened
    assert "token" not in argument
    assert (argument[:8], mode) == ("file:///", 0o600)
    assert f'url={json.loads(done.stdout)["address"]}"' in page
    assert not Path(urlsplit(argument).path).exists()
