"""Replay: which completions are taken, what a batch carries of them, and real trainings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from resumed import KilledError, killing

from sage_cli.settings.sections.rewards import ReplaySection
from sage_cli.store.runs.run import Run
from sage_cli.store.runs.training_completions import SCHEMA
from sage_cli.training.rollouts.replay import (
    OLD_LOGPS,
    REPLAYED,
    Memory,
    Replay,
    old_logps,
    own_places,
    replay_statistics,
)

ROWS = [{"row": 0, "gold": "1"}] * 4


def stored(*rows: dict[str, Any]) -> pa.Table:
    usual = {"problem": "p", "text": "t", "grade": "right", "trained": True}
    whole = [dict.fromkeys(SCHEMA.names) | usual | row for row in rows]
    return pa.Table.from_pylist(whole, schema=SCHEMA)


def row(step: int, ids: list[int], **other: Any) -> dict[str, Any]:
    return {"step": step, "ids": ids, "policy_logps": [-0.5] * len(ids)} | other


def replay(*rows: dict[str, Any], **settings: Any) -> Replay:
    section = ReplaySection(**({"share": 0.5, "solved_at_most": 0.3} | settings))
    found = Replay(section, ["p"], 4)
    found.memory.add(stored(*rows))
    return found


def generated(*ids: list[int]) -> tuple[Any, ...]:
    texts = [str(one) for one in ids]
    return ([[9]] * len(ids), list(ids), None, texts, None, {}, None, None)


def test_the_last_wrong_ones_of_a_hard_group_are_replaced_by_the_newest() -> None:
    one = replay(row(1, [5]), row(3, [6, 6]), row(2, [7]), row(4, [8], grade="wrong"))
    sampled = generated([1], [2], [3], [4])
    mixed, places = one.mix(ROWS, sampled, ["wrong", "wrong", "wrong", "right"], step=5)
    # half of 4 are 2: the newest, of step 3, goes to the last wrong place, that of step 2 before
    assert (mixed[1], places) == ([[1], [7], [6, 6], [4]], [1, 2])
    assert mixed[3][2] == "t"
    assert one.record == {"replay/completions": 2, "replay/age": 2.5}  # (5 - 3 + 5 - 2) / 2
    assert sampled[1] == [[1], [2], [3], [4]]


@pytest.mark.parametrize(
    ("statuses", "settings", "places"),
    [
        (["right", "right", "wrong", "wrong"], {}, []),  # half right: no hard group
        (["wrong"] * 4, {"share": 0.25}, [3]),
        (["wrong"] * 4, {"max_age": 2}, [3]),  # that of step 1 is 4 steps old
        (["wrong"] * 4, {}, [2, 3]),
    ],
)
def test_share_difficulty_and_age_bound_it(
    statuses: list[str], settings: dict[str, Any], places: list[int]
) -> None:
    one = replay(row(1, [5]), row(3, [6]), **settings)
    assert one.mix(ROWS, generated([1], [2], [3], [4]), statuses, step=5)[1] == places


def test_what_the_group_has_itself_or_has_no_logps_is_not_replayed() -> None:
    one = replay(row(1, [4]), row(2, [6], policy_logps=None))
    assert one.mix(ROWS, generated([1], [2], [3], [4]), [*["wrong"] * 3, "right"], step=5)[1] == []
    assert one.record == {"replay/completions": 0}


def test_an_engines_log_probabilities_become_unknown() -> None:
    one = replay(row(1, [5, 6]))
    sampled = (*generated([1], [2], [3], [4])[:4], [[-1.0]] * 4, {}, None, None)
    mixed, _ = one.mix(ROWS, sampled, ["wrong"] * 4, step=2)
    assert mixed[4] == [[-1.0], [-1.0], [-1.0], [None, None]]


@given(st.permutations(range(6)))
def test_the_memory_does_not_depend_on_the_order_of_what_it_hears(order: list[int]) -> None:
    rows = [row(step, [step % 4]) for step in range(6)]
    memory, other = Memory(3), Memory(3)
    for place in order:
        memory.add(stored(rows[place]))
    other.add(stored(*rows))
    newest = memory.newest("p", 9, 0, frozenset())
    assert newest == other.newest("p", 9, 0, frozenset())
    # tokens 0 and 1 came again at steps 4 and 5; 2 and 3 are of steps 2 and 3
    assert [one.step for one in newest] == [5, 4, 3]


def test_another_runs_steps_are_before_the_first() -> None:
    memory = Memory(3)
    memory.add(stored(row(40, [1]), row(38, [2])), before=40)
    assert [one.step for one in memory.newest("p", 9, -9, frozenset())] == [0, -2]


def test_a_batch_carries_the_stored_log_probabilities() -> None:
    one = replay(row(1, [5, 6]))
    one.mix(ROWS, generated([1], [2], [3], [4]), ["wrong"] * 4, step=2)
    batch: dict[str, Any] = {"completion_ids": torch.zeros((4, 3), dtype=torch.long)}
    one.attach(batch)
    assert batch[REPLAYED].tolist() == [False, False, False, True]
    assert own_places(batch, 4).tolist() == [0, 1, 2]
    now_BT = torch.full((4, 3), -1.0)
    assert old_logps(batch, now_BT).tolist() == [[-1.0] * 3] * 3 + [[-0.5, -0.5, 0]]
    batch["old_per_token_logps"] = torch.full((4, 3), -2.0)
    assert old_logps(batch, now_BT)[:, 0].tolist() == [-2.0, -2.0, -2.0, -0.5]
    again: dict[str, Any] = {"completion_ids": batch["completion_ids"]}
    one.attach(again)
    assert OLD_LOGPS not in again
    assert own_places(again, 2).tolist() == [0, 1]


def test_ratios_of_replayed_tokens() -> None:
    found = replay_statistics({"replayed": torch.tensor([0.5, 2.0]).log()})
    assert [found[f"replay/ratio_{name}"] for name in ("min", "mean", "max")] == pytest.approx(
        [0.5, 1.25, 2.0]
    )
    assert replay_statistics({}) == {}


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def configured(configure: Callable[..., Any], steps: int, **settings: Any) -> Any:
    """Fifteen problems, four a step: from the fourth step on they come again."""
    rl = {"algo": "grpo", "steps": steps, **settings}
    return configure(rl=rl, tracking={"rollouts": "all"}, anchor={"beta": 0.1})


HALF = {"replay": {"share": 0.5, "solved_at_most": 0.5}}


@pytest.mark.slow
def test_replayed_completions_are_trained_on_and_not_counted_as_sampled(
    bench: Any, configure: Callable[..., Any]
) -> None:
    records = bench.run(configured(configure, 10, **HALF))
    run = Run(bench.folder / "run")
    ledger, rows = run.ledger.read().to_pylist(), run.completions().read().to_pylist()
    replayed = [record["replay/completions"] for record in records]
    assert replayed[:3] == [0, 0, 0]
    assert sum(replayed) > 0
    for record, count in zip(records, replayed, strict=True):
        own = [one for one in ledger if one["step"] == record["step"]]
        assert sum(one["n"] for one in own) == record["sampled/completions"] == 16
        assert sum(one["n"] for one in own if not one["trained"]) == count
        right = sum(one["right"] for one in own)
        assert record["grade/right"] == right + count  # wrong ones gave way to right ones
        kept = [one for one in rows if one["step"] == record["step"]]
        assert len(kept) == 16
        assert sum(not one["trained"] for one in kept) == count
        assert ("replay/ratio_mean" in record) == (count > 0)
    last = [record for record in records if record["replay/completions"]][-1]
    assert 1 <= last["replay/age"] <= 9
    assert last["replay/ratio_min"] < 1 < last["replay/ratio_max"]
    assert any(record["clip_ratio"] > 0 for record in records)


@pytest.mark.slow
@pytest.mark.parametrize("period", [{}, {"steps_per_generation": 2}])
def test_a_resumed_training_replays_the_same(
    bench: Any, configure: Callable[..., Any], period: dict[str, int]
) -> None:
    slow = {"learning_rate": 1e-5}  # or all are right before it is resumed
    config = configured(configure, 12, **HALF, **period, **slow, save_every=4)
    whole = bench.run(config, "whole")
    assert sum(record["replay/completions"] for record in whole[8:]) > 0
    with pytest.raises(KilledError):
        bench.run(config, "torn", on_step=killing(9))
    bench.run(config, "torn")
    folders = [bench.folder / name for name in ("whole", "torn")]
    assert weights(folders[0] / "model") == weights(folders[1] / "model")
    one, other = (Run(folder).completions().read() for folder in folders)
    assert one.equals(other)


@pytest.mark.slow
def test_without_a_share_or_anything_to_replay_the_weights_are_the_same_to_the_bit(
    bench: Any, configure: Callable[..., Any]
) -> None:
    bench.run(configured(configure, 3), "plain")
    bench.run(configured(configure, 3, replay={"share": 0.0}), "none")
    bench.run(configured(configure, 3, **HALF), "empty")
    plain, none, empty = (
        weights(bench.folder / name / "model") for name in ("plain", "none", "empty")
    )
    assert plain == none == empty


@pytest.mark.slow
def test_another_runs_completions(bench: Any, configure: Callable[..., Any]) -> None:
    bench.run(configured(configure, 3), "source")
    table = Run(bench.folder / "source").completions().read()
    replayed = {}
    for age in (2, None):
        settings = HALF["replay"] | {"run": "source", "max_age": age}
        config = configured(configure, 3, replay=settings, seed=8)
        records = bench.run(config, f"age {age}", replayed=table)
        assert all(record.get("replay/age", 0) <= (age or 5) for record in records)
        replayed[age] = sum(record["replay/completions"] for record in records)
    assert 0 < replayed[2] < replayed[None]


def test_a_wrong_completion_stays_in_the_group() -> None:
    one = replay(row(1, [5]), row(3, [6]), solved_at_most=0.5)
    statuses = ["right", "right", "wrong", "wrong"]
    assert one.mix(ROWS, generated([1], [2], [3], [4]), statuses, step=5)[1] == [3]


def test_numbers_of_kept_rows_leave_out_replayed_ones(tmp_path: Path) -> None:
    from sage_cli.store.runs.training_completions import Sampled, TrainingCompletions
    from sage_cli.training.rollouts.kept import KEPT_IDS, Kept

    kept = Kept(TrainingCompletions(tmp_path))
    sampled = Sampled(
        1, ["p"] * 2, ["q"] * 2, ["1"] * 2, ["a", "b"], ["right", "wrong"], True,
        np.array([1, 1]), np.array([[4], [5]], dtype=np.int32),
    )  # fmt: skip
    batch: dict[str, Any] = {"completion_ids": torch.zeros((3, 1), dtype=torch.long)}
    kept.scored(batch, sampled, np.array([0, 2]))
    assert batch[KEPT_IDS].tolist() == [0, -1, 1]
    batch |= {"advantages": torch.tensor([1.0, 7.0, -1.0])}
    kept.learned(batch, torch.tensor([[-1.0], [-7.0], [-2.0]]))
    kept.seal()
    rows = TrainingCompletions(tmp_path).read().to_pylist()
    assert [(one["advantage"], one["policy_logps"]) for one in rows] == [(1, [-1]), (-1, [-2])]
