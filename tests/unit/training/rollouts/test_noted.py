"""A real training's ledger: each prompt's grades and tokens, replaced ones too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from toy_policy import PROMPTS

from sage_cli.store.runs.run import Run
from sage_cli.store.runs.training_ledger import PromptRow
from sage_cli.training.rollouts.noted import merged


def test_rows_of_a_problem_are_added_up_and_sorted():
    rows = [
        PromptRow("b", 1, 1, 0, 0, 0, 0, 7, 7, True),
        PromptRow("a", 1, 0, 1, 0, 0, 0, 5, 0, True),
        PromptRow("b", 1, 0, 0, 1, 0, 0, 2, 0, True),
        PromptRow("b", 1, 0, 1, 0, 0, 0, 3, 0, False),
    ]
    assert merged(rows) == [
        PromptRow("b", 1, 0, 1, 0, 0, 0, 3, 0, False),
        PromptRow("a", 1, 0, 1, 0, 0, 0, 5, 0, True),
        PromptRow("b", 2, 1, 0, 1, 0, 0, 9, 7, True),  # 7 + 2 tokens, 7 of them right
    ]


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_trainings_ledger_agrees_with_its_records(
    bench: Any, configure: Callable[..., Any], dynamic: bool
):
    extra = {"dynamic_sampling": True, "max_extra_generations": 2} if dynamic else {}
    rl = {"algo": "grpo", "prompts_per_step": 2, "rollouts_per_prompt": 2, **extra}
    records = bench.run(configure(rl=rl))
    rows = Run(bench.folder / "run").ledger.read().to_pylist()
    for record in records:
        own = [row for row in rows if row["step"] == record["step"]]
        trained = [row for row in own if row["trained"]]
        replaced = [row for row in own if not row["trained"]]
        n = sum(row["n"] for row in trained)
        assert n == 4
        assert sum(row["right"] for row in trained) / n == pytest.approx(record["reward"])
        assert sum(row["tokens"] for row in own) == record["sampled/tokens"]
        assert sum(row["n"] for row in own) == record["sampled/completions"]
        assert sum(row["n"] for row in replaced) == 2 * record.get("groups/discarded", 0)
        equal = sum(row["right"] in (0, row["n"]) for row in trained) / len(trained)
        assert equal == pytest.approx(record["groups/zero_variance"])
    assert {row["problem"] for row in rows} <= {problem.id for _, problem in PROMPTS}
    assert any(not row["trained"] for row in rows) == dynamic
