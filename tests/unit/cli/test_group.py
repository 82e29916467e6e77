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


SAVED = "rl-x is saved at step 9"


@pytest.mark.parametrize(
    ("words", "error", "code", "said"),
    [
        ("rl", KeyboardInterrupt(), 130, "the same command again"),
        ("rl", Interrupted(signal.SIGINT), 130, "the same command again"),
        ("rl", Interrupted(signal.SIGTERM, SAVED), 143, f"{SAVED}; the same command again"),
        # what was begun anew continues without --fresh
        (
            "rl --fresh",
            Interrupted(signal.SIGINT, SAVED),
            130,
            f"{SAVED}; the same command without --fresh",
        ),
        ("rl --fresh", KeyboardInterrupt(), 130, "the same command again"),
    ],
)
def test_the_exit_code_is_the_signals_and_the_next_step_is_said(
    monkeypatch, words, error, code, said
):
    monkeypatch.setattr("sys.argv", ["sage", *words.split()])
    assert ended(error) == (code, f"interrupted: {said} continues")
