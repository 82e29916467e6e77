"""`sage samples show RUN --training`, as typed."""

import pytest

from sage_cli.store.json_files import write_json
from sage_cli.store.ledger import Sampled
from sage_cli.store.run import Run

TEXTS = ["<SOLUTION>12</SOLUTION>", "<SOLUTION>3*4</SOLUTION>", "<SOLUTION>7</SOLUTION>"]


@pytest.fixture(autouse=True)
def kept(sage, tmp_path):
    """A run that kept three completions of a step and one of the next, and one that kept none.

    The run's judge paid for 3*4, which the strict one does not.
    """
    for name in ("kept", "bare"):
        run = Run(tmp_path / f"empty/runs/rl-{name}")
        write_json(run.folder / "manifest.json", {"status": "finished", "kind": "rl"})
        paid = [{"name": "format", "weight": 0.5}, {"name": "mine.py:concise", "weight": 0.1}]
        write_json(run.folder / "config.json", {"rl": {"rewards": paid}})
    completions = Run(tmp_path / "empty/runs/rl-kept").completions()
    completions.add(sampled(1, TEXTS, ["right", "right", "wrong"], trained=True))
    completions.add(sampled(2, TEXTS[2:], ["wrong"], trained=False))
    completions.seal()


def sampled(step, texts, grades, *, trained):
    count = len(texts)
    return Sampled(
        step,
        ["p1"] * count,
        ["3*4=?"] * count,
        ["12"] * count,
        texts,
        grades,
        trained,
        [[0, 0]] * count,
        [[0.5, 0.03, 0.0, -1.0]] * count if trained else None,
    )


def test_completions_of_a_step_and_a_grade(sage):
    typed = sage("samples", "show", "kept", "--training", "--json", "--grade", "wrong")
    rows = typed.answer["completions"]
    assert [(row["step"], row["text"], row["trained"]) for row in rows] == [
        (1, TEXTS[2], True),
        (2, TEXTS[2], False),
    ]
    parts = {"format": 0.5, "concise": 0.03, "grade": 0.0, "overlong": -1.0}
    assert [row["rewards"] for row in rows] == [pytest.approx(parts), None]
    shown = sage("samples", "show", "kept", "--training", "--step", "2").words
    assert "replaced" in shown
    assert "3*4=?" in shown
    first = sage("samples", "show", "kept", "--training", "--step", "1").words
    assert "gold 12, format +0.5, concise +0.03, grade +0, overlong -1" in first


def test_the_few_that_every_run_keeps_are_shown_and_said_to_be_few(sage, tmp_path):
    run = Run(tmp_path / "empty/runs/rl-bare")
    for step, grade in ((1, "right"), (1, "unparseable"), (11, "wrong")):
        kept = {"prompt": "3*4=?", "completion": TEXTS[0], "gold": "12", "grade": grade}
        run.rollouts.append({"step": step, **kept, "reward": 1.0})
    typed = sage("samples", "show", "bare", "--training", "--grade", "unparseable")
    assert "3*4=?" in typed.words
    assert "tracking.rollouts=all keeps all of a later run" in typed.words
    assert "fresh" not in typed.words
    (row,) = sage("samples", "show", "bare", "--training", "--step", "11", "--json").answer[
        "completions"
    ]
    assert (row["text"], row["grade"], row["problem"], row["trained"]) == (
        TEXTS[0],
        "wrong",
        None,
        None,
    )
    sage("samples", "show", "bare", "--training", "--problem", "p1").refused("without the ids")


def test_advice_deletes_nothing(sage):
    typed = sage("samples", "show", "bare", "--training")
    typed.refused("tracking.rollouts=all")
    assert "--fresh" not in typed.words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("bare --training", "rl-bare did not store its training completions"),
        ("kept --step 1", "--step selects a training"),
        (
            "kept --training --step 9",
            "none of the 4 completions of rl-kept matches these options; completions are stored of "
            "steps 1, 2",
        ),
        ("kept --training --grade good", "there is no grade 'good'"),
    ],
)
def test_mistakes_are_panels(sage, words, message):
    sage("samples", "show", *words.split()).refused(message)
