"""`sage samples show RUN --training`, as typed."""

import json

import pytest
from typer.testing import CliRunner

from sage_cli.cli.app import app
from sage_cli.store.files import write_json
from sage_cli.store.ledger import Sampled
from sage_cli.store.run import Run

TEXTS = ["<SOLUTION>12</SOLUTION>", "<SOLUTION>3*4</SOLUTION>", "<SOLUTION>7</SOLUTION>"]


@pytest.fixture
def type_(tmp_path, monkeypatch):
    """Type a command in a folder whose run kept three completions of a step and one of the next.

    The run's judge paid for 3*4, which the strict one does not.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("kept", "bare"):
        run = Run(tmp_path / "runs" / f"rl-{name}")
        write_json(run.folder / "manifest.json", {"status": "finished", "kind": "rl"})
        write_json(run.folder / "config.json", {})
    completions = Run(tmp_path / "runs/rl-kept").completions()
    completions.add(sampled(1, TEXTS, ["right", "right", "wrong"], trained=True))
    completions.add(sampled(2, TEXTS[2:], ["wrong"], trained=False))
    completions.seal()
    return lambda *words: CliRunner().invoke(app, list(words))


def sampled(step, texts, grades, *, trained):
    count = len(texts)
    return Sampled(
        step, ["p1"] * count, ["3*4=?"] * count, ["12"] * count, texts, grades,
        trained, [[0, 0]] * count,
    )  # fmt: skip


def test_completions_of_a_step_and_a_grade(type_):
    done = type_("samples", "show", "kept", "--training", "--json", "--grade", "wrong")
    rows = json.loads(done.stdout)["completions"]
    assert [(row["step"], row["text"], row["trained"]) for row in rows] == [
        (1, TEXTS[2], True), (2, TEXTS[2], False),
    ]  # fmt: skip
    shown = type_("samples", "show", "kept", "--training", "--step", "2").output
    assert "replaced" in shown
    assert "3*4=?" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("samples", "show", "bare", "--training"), "rl-bare has not kept the completions"),
        (("samples", "show", "kept", "--step", "1"), "--step is of a training"),
        (("samples", "show", "kept", "--training", "--step", "9"), "none of the 4 completions"),
        (("samples", "show", "kept", "--training", "--grade", "good"), "there is no grade 'good'"),
    ],
)
def test_mistakes_are_panels(type_, words, message):
    done = type_(*words)
    assert done.exit_code != 0
    assert message in done.output
