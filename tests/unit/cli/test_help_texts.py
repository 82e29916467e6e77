"""Help texts as people see them."""

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sage_cli.cli.app import app, command_named
from sage_cli.cli.listing import COMMANDS, PANELS


@pytest.mark.parametrize("words", [(), ("rl",), ("runs",), ("runs", "list"), ("passk",)])
def test_flags_have_no_type(words):
    shown = CliRunner().invoke(app, [*words, "--help"]).stdout
    assert "--help" in shown
    assert "bool" not in shown


def test_commands_stand_in_groups_and_values_have_a_type():
    shown = CliRunner().invoke(app, ["--help"], terminal_width=80).stdout.splitlines()
    heads = [line.strip("╭╮─ ") for line in shown if line.startswith("╭")]
    assert heads == ["Options", *PANELS]
    listed = [line.split()[1] for line in shown if line.startswith("│ ") and line[2] != " "]
    assert [name for name in listed if not name.startswith("-")] == list(COMMANDS)
    assert "docs/glossary.md" in " ".join(shown)
    assert "<float>" in CliRunner().invoke(app, ["rl", "--help"]).stdout


def helps(words, command):
    """The command lines of a command and of those below it."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from helps([*words, name], inner)


def test_a_paragraph_of_a_help_page_is_filled():
    shown = CliRunner().invoke(app, ["power", "--help"], terminal_width=80).stdout
    assert "training \n seeds of two methods." in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_page_is_80_columns_wide_and_ends_with_an_example_that_can_be_typed(name):
    assert COMMANDS[name].help == command_named(name).help.split("\n\n")[0]
    for file in ("completions.jsonl", "mine.yaml", "theirs.jsonl"):
        Path(file).touch()
    for page in helps([name], command_named(name)):
        done = CliRunner().invoke(app, [*page, "--help"], terminal_width=80)
        assert done.exit_code == 0
        shown = done.stdout.strip().splitlines()
        assert "…" not in done.stdout, page
        assert max(map(len, shown)) <= 80
        program, *words = shlex.split(shown[-1].removeprefix(" Example: "))
        assert [program, *words[: len(page)]] == ["sage", *page]
        command, words = command_named(name), words[1:]
        if words and words[0] in (commands := getattr(command, "commands", {})):
            command, words = commands[words[0]], words[1:]
        command.make_context(name, words)  # an unknown option or a missing argument would raise
