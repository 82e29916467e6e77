"""Help texts as people see them."""

import pytest
from typer.testing import CliRunner

from sage_cli.cli.app import COMMANDS, PANELS, app


@pytest.mark.parametrize("words", [(), ("rl",), ("runs",), ("runs", "list"), ("passk",)])
def test_flags_have_no_type(words):
    shown = CliRunner().invoke(app, [*words, "--help"]).stdout
    assert "--help" in shown
    assert "bool" not in shown


def test_values_have_one():
    assert "<float>" in CliRunner().invoke(app, ["rl", "--help"]).stdout


def test_commands_stand_in_groups():
    shown = CliRunner().invoke(app, ["--help"], terminal_width=80).stdout.splitlines()
    heads = [line.strip("╭╮─ ") for line in shown if line.startswith("╭")]
    assert heads == ["Options", *PANELS]
    listed = [line.split()[1] for line in shown if line.startswith("│ ") and line[2] != " "]
    assert [name for name in listed if not name.startswith("-")] == list(COMMANDS)
