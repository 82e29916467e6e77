"""A training's ledger: files between checkpoints, rewound, torn, of another layout."""

import pytest
from pyarrow.parquet import write_table

from sage_cli.store import ledger
from sage_cli.store.ledger import PromptRow, Sampled, TrainingCompletions, TrainingLedger


def row(problem, right=1, *, trained=True):
    return PromptRow(problem, 2, right, 2 - right, 0, 0, 0, 10, 5 * right, trained)


def filled(folder, *parts):
    """Return a ledger with a file for each of `parts`, two problems a step."""
    ledger = TrainingLedger(folder)
    for steps in parts:
        for step in steps:
            ledger.add(step, [row("a"), row("b", 0)])
        ledger.seal()
    return ledger


def steps(ledger):
    return ledger.read()["step"].to_pylist()[::2]


def test_rows_come_back_by_step_once_a_checkpoint_sealed_them(tmp_path):
    ledger = filled(tmp_path, (1, 2), (3,))
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "steps-00000001-00000002-0.parquet",
        "steps-00000003-00000003-0.parquet",
    ]
    first = ledger.read().to_pylist()[1]
    assert first == {
        "step": 1,
        "problem": "b",
        "n": 2,
        "right": 0,
        "wrong": 2,
        "unparseable": 0,
        "timeout": 0,
        "error": 0,
        "tokens": 10,
        "right_tokens": 0,
        "trained": True,
    }
    assert steps(ledger) == [1, 2, 3]
    ledger = TrainingLedger(tmp_path / "ledger")
    ledger.add(1, [row("a")])
    assert len(ledger.read()) == 0
    ledger.seal()
    ledger.seal()
    assert len(ledger.read()) == 1


def test_a_file_with_other_columns_is_not_a_ledgers(tmp_path):
    file = tmp_path / "steps-00000001-00000001-0.parquet"
    table = filled(tmp_path, (1,)).read()
    write_table(table.append_column("reward/short", [[0.5, 0.5]]), file)
    assert len(TrainingLedger(tmp_path).read()) == 0


@pytest.mark.parametrize("step", [0, 1, 2, 3, 4])
def test_later_steps_are_forgotten_and_may_come_again(tmp_path, step):
    filled(tmp_path, (1, 2), (3, 4))
    ledger = TrainingLedger(tmp_path)
    ledger.rewind(step)
    assert steps(ledger) == list(range(1, step + 1))
    for again in range(step + 1, 5):
        ledger.add(again, [row("a"), row("b")])
    ledger.seal()
    assert steps(ledger) == [1, 2, 3, 4]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"nonsense" * 100])
def test_a_torn_file_is_named_and_the_rest_counts(tmp_path, caplog, content):
    ledger = filled(tmp_path, (1,), (2,))
    torn = tmp_path / "steps-00000001-00000001-0.parquet"
    torn.write_bytes(content)
    assert steps(ledger) == [2]
    assert f"{torn} is corrupt, was edited" in caplog.text


def test_an_altered_page_is_noticed(tmp_path):
    ledger = filled(tmp_path, (1,), (2,))
    file = tmp_path / "steps-00000002-00000002-0.parquet"
    content = bytearray(file.read_bytes())
    content[40] ^= 1
    file.write_bytes(content)
    assert steps(ledger) == [1]


def sampled(step, text, *, trained):
    return Sampled(
        step,
        ["p"],
        ["q"],
        ["1"],
        [text],
        ["right"],
        trained,
        [[4]],
    )


def add(store, *steps):
    """Add two batches that were replaced and the one that was trained on, for each of `steps`."""
    for step in steps:
        for text in ("replaced", "again"):
            store.add(sampled(step, text, trained=False))
        store.add(sampled(step, "trained", trained=True))


def texts(folder):
    rows = TrainingCompletions(folder).read().to_pylist()
    return [(row["step"], row["text"]) for row in rows]


def expected(*steps):
    return [(step, text) for step in steps for text in ("replaced", "again", "trained")]


def test_no_batch_of_a_step_replaces_another(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "AT_ONCE", 1)
    store = TrainingCompletions(tmp_path)
    add(store, 1, 2, 3)
    store.seal()
    add(store, 4)
    store.seal()
    assert texts(tmp_path) == expected(1, 2, 3, 4)
    assert len(list(tmp_path.iterdir())) == 4


def test_steps_after_a_checkpoint_come_again(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "AT_ONCE", 1)
    killed = TrainingCompletions(tmp_path)
    add(killed, 1, 2)
    killed.seal()
    add(killed, 3, 4)
    while killed._waiting:
        killed._waiting.popleft().result()
    resumed = TrainingCompletions(tmp_path)
    resumed.rewind(2)
    add(resumed, 3, 4, 5)
    resumed.seal()
    assert texts(tmp_path) == expected(1, 2, 3, 4, 5)
