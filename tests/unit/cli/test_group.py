"""How a command that was interrupted ends: exit code, what was saved, what to type."""

import signal

import pytest
from typer.testing import CliRunner

from sage_cli.cli.app import new_app
from sage_cli.errors import Interrupted


def ended(error):
    """Exit code and output of a command that `error` ends."""
    app = new_app("Test.")

    @app.command()
    def stop() -> None:
        raise error

    @app.command()
    def other() -> None:
        """So that it is a group."""

    result = CliRunner().invoke(app, ["stop"])
    return result.exit_code, " ".join(result.output.split())


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted: the same command again continues"),
        (Interrupted(signal.SIGINT), 130, "interrupted: the same command again continues"),
        (
            Interrupted(signal.SIGTERM, "rl-x is saved at step 9"),
            143,
            "interrupted: rl-x is saved at step 9; the same command again continues",
        ),
    ],
)
def test_the_exit_code_is_the_signals_and_the_next_step_is_said(monkeypatch, error, code, said):
    monkeypatch.setattr("sys.argv", ["sage", "rl"])
    assert ended(error) == (code, said)


def test_what_was_begun_anew_continues_without_fresh(monkeypatch):
    monkeypatch.setattr("sys.argv", ["sage", "rl", "--fresh"])
    said = "interrupted: rl-x is saved at step 9; the same command without --fresh continues"
    assert ended(Interrupted(signal.SIGINT, "rl-x is saved at step 9")) == (130, said)
    assert ended(KeyboardInterrupt())[1] == "interrupted: the same command again continues"
