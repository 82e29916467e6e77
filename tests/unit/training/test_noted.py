"""A real training's ledger: each prompt's grades and tokens, replaced ones too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from toy_policy import PROMPTS

from sage_cli.store.ledger import PromptRow
from sage_cli.store.run import Run
from sage_cli.training.step_record import merged


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


def kept_run(bench: Any, configure: Callable[..., Any], name: str = "run", **rl: Any) -> Run:
    """Return a run of two prompts a step that keeps every completion."""
    settings = {"algo": "grpo", "prompts_per_step": 2, "rollouts_per_prompt": 2} | rl
    tracking = {"rollouts": "all"}
    bench.run(configure(rl=settings, tracking=tracking, anchor={"beta": 0.1}), name)
    return Run(bench.folder / name)


@pytest.mark.parametrize("dynamic", [False, True])
def test_ledger_and_completions_agree_with_the_records(
    bench: Any, configure: Callable[..., Any], dynamic: bool
):
    extra = {"dynamic_sampling": True, "max_extra_generations": 2} if dynamic else {}
    run = kept_run(bench, configure, **extra)
    ledger, completions = run.ledger.read().to_pylist(), run.completions().read().to_pylist()
    for record in run.metrics.read():
        own, rows = (
            [row for row in table if row["step"] == record["step"]]
            for table in (ledger, completions)
        )
        trained = [row for row in own if row["trained"]]
        replaced = [row for row in own if not row["trained"]]
        n = sum(row["n"] for row in trained)
        assert n == 4
        assert sum(row["right"] for row in trained) / n == pytest.approx(record["reward"])
        assert sum(row["tokens"] for row in own) == record["sampled/tokens"]
        assert sum(row["n"] for row in own) == record["sampled/completions"] == len(rows)
        assert sum(row["n"] for row in replaced) == 2 * record.get("groups/discarded", 0)
        equal = sum(row["right"] in (0, row["n"]) for row in trained) / len(trained)
        assert equal == pytest.approx(record["groups/zero_variance"])
        assert sum(len(row["ids"]) for row in rows) == record["sampled/tokens"]
        taught = [row for row in rows if row["trained"]]
        assert [row["rewards"] for row in taught] == [
            [float(row["grade"] == "right")] for row in taught
        ]
        for first, second in zip(taught[::2], taught[1::2], strict=True):  # groups of two
            assert first["problem"] == second["problem"]
        for row in rows:
            assert bench.tokenizer.decode(row["ids"], skip_special_tokens=True) == row["text"]
            assert (row["rewards"] is None) == (not row["trained"])
    assert {row["problem"] for row in ledger} <= {problem.id for _, problem in PROMPTS}
    assert any(not row["trained"] for row in ledger) == dynamic


def test_keeping_completions_changes_nothing(bench: Any, configure: Callable[..., Any]):
    kept = kept_run(bench, configure)
    rl = {"prompts_per_step": 2, "rollouts_per_prompt": 2, "algo": "grpo"}
    plain = bench.run(configure(rl=rl, anchor={"beta": 0.1}), "plain")
    assert [row["loss"] for row in kept.metrics.read()] == [row["loss"] for row in plain]
    assert not (bench.folder / "plain" / "completions").exists()
