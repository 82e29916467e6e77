"""With `--json`, stdout holds one object, whoever else prints."""

import io
import json
import logging
import re
import subprocess
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from sage_cli.cli.console import (
    SafeConsole,
    SafeFormatter,
    emit,
    show_error,
    visible,
    visible_json,
    wants_json,
)
from sage_cli.cli.libraries import prepare
from sage_cli.errors import StoreError

NOISY = """
import atexit, os, subprocess, sys
import typer
from sage_cli.cli import app as commands
from sage_cli.cli.console import console, emit
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
    "a table",
    "Python",
    "C",
    "a child",
    "a handler that kept the stream",
    "Python at the end",
    "C at the end",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "stdout"),
    [
        # JSON names a half of a character by its number
        (["--json"], 0, '{\n  "a": "\\ud800π"\n}\n'),
        (["--json", "--fail"], 2, {"cause": "a cause", "next_step": "a step", "exit_code": 2}),
        ([], 0, None),
    ],
)
def test_with_json_everything_but_the_object_goes_to_stderr(words, code, stdout):
    program = [sys.executable, "-c", NOISY, "noisy", *words]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == code
    if code:
        assert json.loads(done.stdout) == {"error": stdout}
        assert set(NOISE) < set(done.stderr.splitlines())
        return
    noise, rest = (done.stderr, done.stdout) if words else (done.stdout, done.stderr)
    assert sorted(noise.splitlines()) == sorted(NOISE)
    assert rest == (stdout or "")


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


COMMANDS = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
HOSTILE = "\x1b]52;c;aGk=\x07 \x1b[2J\x9b31m\u202egpj\u2069.\u200e\u061c\x7f\r\ud800"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;aGk=\x07", r"\x1b]52;c;aGk=\x07"),  # the clipboard
        ("\x1b[2J\x9b31m\x85", r"\x1b[2J\x9b31m\x85"),  # CSI in both its forms
        ("\u202egpj.exe\u2066\u200f", r"\u202egpj.exe\u2066\u200f"),
        ("half \ud83d", r"half \ud83d"),
        ("a\rb\x08\x00", r"a\x0db\x08\x00"),
        ("π = 3\n\ttab\n💡 é العربية", "π = 3\n\ttab\n💡 é العربية"),
        (r"\x1b", r"\x1b"),
    ],
)
def test_commands_are_written_out_and_letters_left(text, shown):
    assert visible(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_nothing_that_is_visible_is_a_command(text):
    assert not re.search(COMMANDS, visible(text))
    assert visible(visible(text)) == visible(text)
    assert json.loads(visible_json(json.dumps(text, ensure_ascii=False))) == text


@pytest.mark.parametrize(
    "shown",
    [
        HOSTILE,
        Text(HOSTILE),
        Panel(HOSTILE, title=Text(HOSTILE)),
        [HOSTILE],
        f"[bold]{HOSTILE.replace('[', '')}[/]",
    ],
)
def test_no_way_of_printing_hands_them_on(shown):
    out = io.StringIO()
    SafeConsole(file=out, width=60, force_terminal=False).print(shown)
    assert not re.search(COMMANDS, out.getvalue())
    assert r"\u202egpj\u2069" in out.getvalue()


def test_a_table_and_the_styles_of_our_own_stay():
    table = Table("name", HOSTILE, title=HOSTILE)
    table.add_row(HOSTILE, "x")
    out = io.StringIO()
    console = SafeConsole(file=out, width=200, force_terminal=True, color_system="standard")
    console.print(table, Text("green", style="green"))
    own = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
    assert own != out.getvalue()
    assert not re.search(COMMANDS, own)


def test_an_error_shows_what_it_quotes(capsys):
    """A file's name, or a completion."""
    show_error(StoreError(f"/tmp/{HOSTILE}.json is torn", f"remove {HOSTILE}"), 2)
    said = capsys.readouterr().err
    assert not re.search(COMMANDS, said)
    assert said.count(r"\x1b]52;c;aGk=\x07") == 2
    show_error(StoreError("http://ann:s3cret@h/v1 didn't answer", "try http://a:s3cret@b"), 2)
    said = capsys.readouterr().err
    assert "s3cret" not in said
    assert "http://ann@h/v1 didn't answer" in said


def test_json_says_the_same_without_them(capsys):
    text = HOSTILE.removesuffix("\ud800")
    emit({"completion": text, "π": "é"})
    said = capsys.readouterr().out
    assert not re.search("[\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", said)
    assert json.loads(said) == {"completion": text, "π": "é"}
    assert "é" in said


def test_a_refused_word_is_shown_without_commands_and_passwords(sage):
    for words in (
        "passk --no-such=http://ann:s3cret@h --json",
        "config show --set postgresql://ann:s3cret@h",
    ):
        typed = sage(*words.split())
        typed.refused()
        assert "s3cret" not in typed.words
    typed = sage(f"no-{HOSTILE[:-1]}")
    typed.refused(r"\u202egpj")
    assert not re.search(COMMANDS, typed.words)


def test_warnings_and_log_lines_are_shown_so_too(monkeypatch):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    prepare()
    said = warnings.formatwarning(HOSTILE, UserWarning, "f", 1)  # type: ignore[arg-type]
    assert not re.search(COMMANDS, said)
    plain = warnings.formatwarning(UserWarning("no reward"), UserWarning, "rl.py", 7)
    assert plain == "warning: no reward\n"
    assert logging.lastResort is not None
    assert isinstance(logging.lastResort.formatter, SafeFormatter)
    record = logging.LogRecord("x", 30, "f", 1, "%s is no part", (HOSTILE,), None)
    assert not re.search(COMMANDS, logging.lastResort.format(record))
