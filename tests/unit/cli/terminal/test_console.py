"""With `--json`, stdout holds one object, whoever else prints."""

import json
import subprocess
import sys

import pytest

from sage_cli.cli.terminal.console import wants_json

NOISY = """
import atexit, os, subprocess, sys
import typer
from sage_cli.cli import app as commands
from sage_cli.cli.terminal.console import console, emit
from sage_cli.errors import SageError

@commands.app.command("noisy")
def noisy(fail: bool = False, json: bool = typer.Option(False, "--json")):
    kept = sys.stdout
    console.print("a table")
    print("Python")
    os.write(1, b"C\\n")
    subprocess.run(["echo", "a child"])
    kept.write("a handler that kept the stream\\n")
    atexit.register(os.write, 1, b"C at the end\\n")
    atexit.register(print, "Python at the end")
    if fail:
        raise SageError("a cause", "a step")
    if json:
        emit({"a": "\\ud800\\u03c0"})

commands.main()
"""
NOISE = (
    "a table", "Python", "C", "a child", "a handler that kept the stream", "Python at the end",
    "C at the end",
)  # fmt: skip


def noisy(*words):
    return subprocess.run(
        [sys.executable, "-c", NOISY, "noisy", *words], capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_everything_but_the_object_goes_to_stderr():
    done = noisy("--json")
    assert done.returncode == 0
    # JSON names a half of a character by its number
    assert done.stdout == '{\n  "a": "\\ud800π"\n}\n'
    assert sorted(done.stderr.splitlines()) == sorted(NOISE)


@pytest.mark.slow
def test_so_it_does_when_the_command_fails():
    done = noisy("--json", "--fail")
    assert done.returncode == 2
    said = {"cause": "a cause", "next_step": "a step", "exit_code": 2}
    assert json.loads(done.stdout) == {"error": said}
    assert set(NOISE) < set(done.stderr.splitlines())


@pytest.mark.slow
def test_without_json_stdout_is_as_ever():
    done = noisy()
    assert sorted(done.stdout.splitlines()) == sorted(NOISE)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["runs", "list", "--json"], True),
        (["--json"], True),
        (["passk"], False),
        (["grade", "--", "--json"], False),
        (["grade", "--json", "--", "x"], True),
        ([], False),
    ],
)
def test_a_command_line_asks_for_an_object_or_not(words, expected):
    assert wants_json(words) is expected
