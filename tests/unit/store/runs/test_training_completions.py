"""A training's kept completions: files of whole steps, however large a step's rows are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sage_cli.store.runs import training_completions
from sage_cli.store.runs.training_completions import Sampled, TrainingCompletions


def sampled(step: int, text: str, *, trained: bool) -> Sampled:
    return Sampled(
        step, ["p"], ["q"], ["1"], [text], ["right"], trained,
        np.array([1]), np.array([[4]], dtype=np.int32),
    )  # fmt: skip


def add(store: TrainingCompletions, *steps: int) -> None:
    """Add two batches that were replaced and the one that was trained on, for each of `steps`."""
    for step in steps:
        for text in ("replaced", "again"):
            store.add(sampled(step, text, trained=False))
        store.add(sampled(step, "trained", trained=True))


def texts(folder: Path) -> list[tuple[int, str]]:
    rows = TrainingCompletions(folder).read().to_pylist()
    return [(row["step"], row["text"]) for row in rows]


def expected(*steps: int) -> list[tuple[int, str]]:
    return [(step, text) for step in steps for text in ("replaced", "again", "trained")]


def test_no_batch_of_a_step_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training_completions, "AT_ONCE", 1)
    store = TrainingCompletions(tmp_path)
    add(store, 1, 2, 3)
    store.seal()
    add(store, 4)
    store.seal()
    assert texts(tmp_path) == expected(1, 2, 3, 4)
    assert len(list(tmp_path.iterdir())) == 4


def test_steps_after_a_checkpoint_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(training_completions, "AT_ONCE", 1)
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
