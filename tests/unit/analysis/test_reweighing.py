"""Advantages of a real training's completions by other methods, and its own ones again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sage_cli.analysis.reweighing import Trained, batches_of, reweighed
from sage_cli.methods.method import OnlineMethod
from sage_cli.store.runs.run import Run
from sage_cli.store.runs.training_completions import SCHEMA


@pytest.fixture
def trained(bench: Any, configure: Callable[..., Any]) -> Run:
    """A run of GRPO that kept its completions."""
    config = configure(rl={"algo": "grpo"}, tracking={"rollouts": "all"}, anchor={"beta": 0.1})
    bench.run(config)
    return Run(bench.folder / "run")


@pytest.fixture
def method(configure: Callable[..., Any]) -> Callable[[str], OnlineMethod]:
    return lambda name: configure(rl={"algo": name}).rl


def test_its_own_method_gives_what_it_was_trained_with(trained: Run, method: Any):
    rows = [row for row in trained.completions().read().to_pylist() if row["trained"]]
    batches = batches_of(trained.completions().read(), trained.ledger.read())
    found = reweighed(batches, [method("grpo")], 4)
    stored = [row["advantage"] for row in rows]
    assert np.ptp(stored) > 1
    np.testing.assert_allclose(found.advantage_R["grpo"], stored, atol=1e-5)
    assert found.right_R.tolist() == [row["grade"] == "right" for row in rows]
    assert found.tokens_R.tolist() == [len(row["ids"]) for row in rows]


def test_counts_are_enough_for_methods_of_grades(trained: Run, method: Any):
    """The ledger sorts problems and puts right completions first, so sorted values agree."""
    kept = batches_of(trained.completions().read(), trained.ledger.read())
    counted = batches_of(SCHEMA.empty_table(), trained.ledger.read())
    for name in ("grpo", "dr-grpo", "maxrl", "nsr"):
        one, other = (reweighed(of, [method(name)], 4).advantage_R[name] for of in (kept, counted))
        np.testing.assert_allclose(np.sort(one), np.sort(other), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "why"), [("unlikeliness", "log-probabilities"), ("effective-rank", "hidden states")]
)
def test_what_a_method_lacks_is_named(trained: Run, method: Any, name: str, why: str):
    counted = batches_of(SCHEMA.empty_table(), trained.ledger.read())
    found = reweighed(counted, [method("grpo"), method(name)], 4)
    assert set(found.advantage_R) == {"grpo"}
    assert why in found.refused[name]


def test_log_probabilities_are_read_where_they_are_kept(trained: Run, method: Any):
    kept = batches_of(trained.completions().read(), trained.ledger.read())
    assert not reweighed(kept, [method("unlikeliness")], 4).refused


def test_by_hand(method: Any):
    # two groups: one of four is right; none is. r - mean: 3/4 and -1/4; 0
    right_PN = np.array([[1.0, 0, 0, 0], [0, 0, 0, 0]])
    batch = Trained(1, ["a", "b"], right_PN, right_PN, np.full((2, 4), 3))
    found = reweighed([(batch, 1)], [method("dr-grpo")], 4)
    assert found.advantage_R["dr-grpo"].tolist() == [0.75, -0.25, -0.25, -0.25, 0, 0, 0, 0]
    assert found.rate_R.tolist() == [0.25] * 4 + [0] * 4
    assert found.left_out == 1
