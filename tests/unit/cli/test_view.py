"""`sage view` on the command line: what a name means, mistakes, and what it loads."""

import json
import os
import pty
import socket
import stat
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from shown_runs import shown_runs

from sage_cli.cli.view import each_enter, named
from sage_cli.errors import StoreError


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
    with pytest.raises(StoreError, match="'rl-' matches 3"):
        named(shown, "rl-")
    with pytest.raises(StoreError, match="there is no run, sweep or suite 'nothing'"):
        named(shown, "nothing")


@pytest.fixture
def view(sage, monkeypatch):
    monkeypatch.setattr("sage_cli.view.page_server.serve", lambda *_: None)
    return lambda *words: sage("view", *words, "--json")


def test_the_address_and_an_export_begin_with_what_was_named(shown, view):
    address = view("demo", "--runs", shown, "--no-open").answer["address"]
    assert address.endswith("#/suite?suite=demo-12345678")
    written = view("demo", "--runs", shown, "--export", "page")
    page = (written.folder / "page" / "index.html").read_text()
    assert written.answer["bytes"] == len(page.encode())
    held = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert held["begin"] == "#/suite?suite=demo-12345678"


def test_a_folder_that_is_not_there_or_of_others_and_a_port_that_is_taken_are_named(view, tmp_path):
    view("--runs", tmp_path / "nowhere").refused("there is no folder")
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "runs").mkdir()
    view("--runs", tmp_path / "runs", "--export", tmp_path).refused("something else than an export")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        view("--runs", tmp_path, "--port", port, "--no-open").refused(port, "--port")


LISTENING = """
from sage_cli.cli.view import each_enter
print("ready", flush=True)
each_enter(lambda: print("called", flush=True))
print("ended", flush=True)
"""


def test_each_enter_in_the_terminal_is_heard():
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-c", LISTENING])
    with os.fdopen(terminal, "rb", buffering=0) as screen:

        def until(word):
            text = b""
            while word not in text:
                text += screen.read(64)

        until(b"ready")
        for _ in range(2):
            os.write(terminal, b"\n")
            until(b"called")
        os.write(terminal, b"\x04")  # Ctrl-D
        until(b"ended")
    os.waitpid(process, 0)


def test_where_there_is_no_terminal_nothing_is_waited_for():
    with Path(os.devnull).open() as nothing:
        each_enter(pytest.fail, nothing.fileno())


def test_a_browser_is_opened_unless_told_otherwise(view, tmp_path, monkeypatch):
    opened = []

    def look(address):
        """What a browser is started with, which `ps` shows, and what it finds there."""
        file = Path(urlsplit(address).path)
        opened.append((address, stat.S_IMODE(file.stat().st_mode), file.read_text()))

    monkeypatch.setattr("webbrowser.open", look)
    view("--runs", tmp_path, "--no-open")
    assert opened == []
    address = view("--runs", tmp_path).answer["address"]
    ((argument, mode, page),) = opened
    assert "token" not in argument
    assert (argument[:8], mode) == ("file:///", 0o600)
    assert f'url={address}"' in page
    assert not Path(urlsplit(argument).path).exists()
