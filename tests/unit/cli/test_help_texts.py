"""Help texts as people see them."""

import pytest
from typer.testing import CliRunner

from sage_cli.cli.app import app


@pytest.mark.parametrize("words", [(), ("rl",), ("runs",), ("runs", "list"), ("passk",)])
def test_flags_have_no_type(words):
    shown = CliRunner().invoke(app, [*words, "--help"]).stdout
    assert "--help" in shown
    assert "bool" not in shown


def test_values_have_one():
    assert "<float>" in CliRunner().invoke(app, ["rl", "--help"]).stdout
