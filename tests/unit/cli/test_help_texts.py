"""Help texts as people see them."""

import shlex

import pytest
from typer.testing import CliRunner

from sage_cli.cli.app import COMMANDS, PANELS, app, command_named


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
    assert "<float>" in CliRunner().invoke(app, ["rl", "--help"]).stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_a_listed_line_is_the_first_sentence_of_the_commands_own_help(name):
    assert COMMANDS[name].help == command_named(name).help.split("\n\n")[0]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_help_page_ends_with_an_example_that_can_be_typed(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in ("completions.jsonl", "mine.yaml", "theirs.jsonl"):
        (tmp_path / file).touch()
    for page in helps([name], command_named(name)):
        shown = CliRunner().invoke(app, [*page, "--help"], terminal_width=80).stdout
        program, *words = shlex.split(shown.strip().splitlines()[-1].removeprefix(" Example: "))
        assert [program, *words[: len(page)]] == ["sage", *page]
        command, words = command_named(name), words[1:]
        if words and words[0] in (commands := getattr(command, "commands", {})):
            command, words = commands[words[0]], words[1:]
        command.make_context(name, words)  # an unknown option or a missing argument would raise


def helps(words, command):
    """The command lines of a command and of those below it."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from helps([*words, name], inner)


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_is_cut_off_at_80_columns(name):
    for words in helps([name], command_named(name)):
        shown = CliRunner().invoke(app, [*words, "--help"], terminal_width=80)
        assert shown.exit_code == 0
        assert "…" not in shown.stdout, words
        assert max(map(len, shown.stdout.splitlines())) <= 80
