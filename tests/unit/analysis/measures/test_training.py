"""Discovery, forgetting and coverage of a training of three problems, by hand."""

import numpy as np
import pyarrow as pa
import pytest

from sage_cli.analysis.analysis import Inputs, Options, TrainedRun
from sage_cli.analysis.training import Visits, training
from sage_cli.errors import StoreError
from sage_cli.store.ledger import LEDGER_SCHEMA

# problem 0: missed, solved, missed; problem 1: solved, solved; problem 2: never
VISITS = Visits(
    step_V=np.array([1, 1, 2, 2, 3, 3]),
    problem_V=np.array([0, 1, 0, 2, 0, 1]),
    n_V=np.array([4, 4, 4, 4, 4, 2]),
    right_V=np.array([0, 3, 1, 0, 0, 2]),
)


def test_visits_discoveries_and_rates_by_hand():
    assert VISITS.problems == 3
    assert VISITS.first.tolist() == [0, 1, 3]
    assert VISITS.last.tolist() == [4, 5, 3]
    assert VISITS.discovery.tolist() == [1, 2]  # problem 1 at step 1, problem 0 at step 2
    x, y = VISITS.solved_by(VISITS.step_V)
    assert (x.tolist(), y.tolist()) == ([1, 2, 3], [1, 2, 2])
    x, y = VISITS.solved_by(np.cumsum(VISITS.n_V))
    assert (x.tolist(), y.tolist()) == ([8, 12, 22], [1, 2, 2])  # 4 + 4, + 4, all
    one, following = VISITS.next_of
    assert sorted(zip(one.tolist(), following.tolist(), strict=True)) == [(0, 2), (1, 5), (2, 4)]
    first_P, last_P = VISITS.rates()
    assert first_P.tolist() == [0, 0.75]
    assert last_P.tolist() == [0, 1]
    none = Visits(*(np.array([v]) for v in (1, 0, 4, 0)))
    x, y = none.solved_by(none.step_V)
    assert (x.tolist(), y.tolist()) == ([1], [0])
    assert [len(one) for one in none.rates()] == [0, 0]


def table(*rows):
    """Return a ledger of (step, problem, right of 2, trained on); a completion has 10 tokens."""
    listed = [
        {
            "step": step,
            "problem": problem,
            "n": 2,
            "right": right,
            "wrong": 2 - right,
            "unparseable": 0,
            "timeout": 0,
            "error": 0,
            "tokens": 20,
            "right_tokens": 10 * right,
            "trained": trained,
        }
        for step, problem, right, trained in rows
    ]
    return pa.Table.from_pylist(listed, schema=LEDGER_SCHEMA)


LEDGER = table(
    (1, "c", 0, False),
    (1, "a", 1, True),
    (1, "b", 0, True),
    (2, "a", 0, True),
    (2, "b", 2, True),
    (3, "a", 2, True),
    (3, "b", 2, True),
)


def test_by_hand():
    run = TrainedRun("rl-1", [{"step": 1}], ledger=LEDGER)
    document = training(Inputs(trained={"grpo": run}, options=Options(resamples=200)))
    (coverage,) = document.data["coverage"]
    assert coverage == {
        "run": "grpo",
        "steps": 3,
        "completions": 14,
        "problems": 3,
        "solved": 2,
        "at the first visit": 1,
        "later": 1,
        "never": 1,
    }
    (revisits,) = document.data["revisits"]
    assert revisits["problems visited again"] == 2
    assert revisits["pass rate at the first visit"] == 0.25  # 1/2 and 0
    assert revisits["last less first"] == 0.75  # 1/2 and 1
    # a's first visit and b's second were solved; a's next was not
    assert revisits["solved and not at the next visit"] == 0.5
    # b's first and a's second were not solved; both were at the next
    assert revisits["not solved and solved at the next"] == 1
    early = {row["share"]: row["early"] for row in document.data["phases"]}
    assert early == {
        "groups all right": 0,
        "groups all wrong": 0.5,  # b of a and b
        "tokens of right completions": pytest.approx(1 / 6),  # 10 of 60
        "tokens in groups without signal": pytest.approx(1 / 3),  # b's 20 of 60
        "tokens of replaced groups": pytest.approx(1 / 3),  # c's 20
    }
    late = {row["share"]: row["late"] for row in document.data["phases"]}
    assert late["groups all right"] == 1


def test_a_run_without_a_ledger_is_named():
    bare = TrainedRun("sft-1", [{"step": 1}], ledger=LEDGER_SCHEMA.empty_table())
    with pytest.raises(StoreError, match="sft-1 has no rollout log"):
        training(Inputs(trained={"sft": bare}))
