"""Trainings with rewards of one's own: the default to the bit, records, completions, resume."""

from pathlib import Path

import pytest
import torch
from recorded import meaning
from toy_policy import weights

from sage_cli.config.load import load
from sage_cli.errors import TrainingError
from sage_cli.grading import Grade
from sage_cli.models.planned import rl_run
from sage_cli.models.policy import Policy
from sage_cli.store.run import Run, Runs

MINE = """
def early(prompts, completions, completion_ids, gold, **columns):
    return [None if not text else 1 - ord(text[0]) / 128 for text in completions]

def half(prompts, completions, **_):
    return [[1.0, 0.0, None, None][i % 4] for i in range(len(completions))]

def failing(completions, **_):
    return ["yes"] * len(completions)
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    return str(tmp_path / "mine.py")


def test_rewards_that_say_the_default_train_the_same(bench, configure, mine):
    usual = bench.run(configure(rl={"steps": 2}), "usual")
    bench.run(configure(rl={"steps": 2, "rewards": ["grade"]}), "said")
    watched = [{"name": "grade"}, {"name": f"{mine}:early", "weight": 0}]
    records = bench.run(configure(rl={"steps": 2, "rewards": watched}), "watched")
    assert weights(bench.folder / "said/model") == weights(bench.folder / "usual/model")
    assert weights(bench.folder / "watched/model") == weights(bench.folder / "usual/model")
    assert "reward/total" not in usual[0]
    assert records[0]["reward/total"] == records[0]["reward/grade"] == usual[0]["reward"]


def test_each_part_is_in_records_and_completions(bench, configure, mine):
    rewards = [{"name": f"{mine}:early", "weight": 0.5}, "grade", "format", "brevity"]
    config = configure(rl={"steps": 2, "rewards": rewards}, tracking={"rollouts": "all"})
    records = bench.run(config)
    run = Run(bench.folder / "run")
    rows = run.completions().read().to_pylist()
    assert all(row["trained"] for row in rows)
    first = [row["rewards"] for row in rows if row["step"] == 1]
    for place, (name, weight) in enumerate(
        [("early", 0.5), ("grade", 1), ("format", 1), ("brevity", 1)]
    ):  # a completion without text has no `early`, which counts 0 in the sum
        said = [row["rewards"][place] for row in rows if row["step"] == 1 and row["text"]]
        of = said if name == "early" else [values[place] for values in first]
        mean = weight * records[0][f"reward/{name}"]
        assert mean == pytest.approx(sum(of) / len(of), rel=1e-5)
    totals = [sum(values) for values in first]
    assert records[0]["reward/total"] == pytest.approx(sum(totals) / len(totals), rel=1e-5)
    shown = run.rollouts.read()[0]
    assert list(shown["rewards"]) == ["early", "grade", "format", "brevity"]
    assert not [key for record in records for key in record if meaning(key) is None]


@pytest.mark.parametrize("algo", ["grpo", "rs-grpo", "dr-grpo"])
def test_a_completion_without_a_reward_moves_nobody(bench, configure, mine, algo):
    """Rewards 1 and 0 of two, and none of the others, whose advantages are 0.

    grpo: .5 / (sqrt(.5) + 1e-4); dr-grpo: .5; rs-grpo fills in the mean, and has 0 there, too.
    """
    trainer = bench.trainer(configure(rl={"algo": algo, "rewards": f"{mine}:half"}))
    trainer.model.train()
    rows = [trainer.train_dataset[i // 4] for i in range(16)]
    batch = trainer._generate_and_score_completions(rows)
    advantages_PN = batch["advantages"].reshape(4, 4)
    assert (advantages_PN[:, 2:] == 0).all()
    value = {"grpo": 0.5 / (0.5**0.5 + 1e-4), "dr-grpo": 0.5}.get(algo)
    if value is not None:
        torch.testing.assert_close(
            advantages_PN[:, :2], torch.tensor([[value, -value]]).expand(4, 2)
        )
    assert trainer._batch_record["reward/total"] == pytest.approx(0.5)


def test_a_reward_is_maximised(bench, configure, mine):
    """`early` pays for first characters of small codes, whatever their grade."""
    rl = {
        "steps": 15,
        "learning_rate": 1e-2,
        "stop_when_stuck": False,
        "rewards": f"{mine}:early",
    }
    records = bench.records(configure(rl=rl, anchor={"kl": "none"}))
    means = [record["reward/early"] for record in records]
    assert sum(means[-3:]) > sum(means[:3]) + 0.3


def test_a_failing_reward_ends_the_training_by_name(bench, configure, mine):
    with pytest.raises(TrainingError, match=r"returns 'yes' for completion 0 of 16") as failed:
        bench.run(configure(rl={"steps": 1, "rewards": f"{mine}:failing"}))
    assert "(mine.py, line 8)" in failed.value.cause


def test_the_share_that_a_judge_says_is_paid(bench, configure):
    """Of two right answers in four, and .5 twice: .75; the share of right ones stays .5."""

    def grader(golds, completions):
        return [
            Grade.from_judged(1.0 if i % 2 else 0.5, text) for i, text in enumerate(completions)
        ]

    config = configure(rl={"steps": 1}, grading={"judge": "roles"})
    (record,) = bench.records(config, grader=grader)
    assert (record["reward"], record["reward/grade"], record["reward/total"]) == (0.5, 0.75, 0.75)
    assert (record["grade/right"], record["grade/wrong"]) == (8, 8)


def test_a_run_is_named_by_what_its_functions_say(tmp_path, mine):
    def run_of(*sets):
        config = load(["tiny"], sets=sets).config
        return rl_run(config, Policy("some/model"), Runs(tmp_path), 1).id

    plain = run_of()
    first = run_of(f"rl.rewards=['grade', '{mine}:early']")
    weighed = run_of(f"rl.rewards=['grade', {{name: '{mine}:early', weight: 2}}]")
    Path(mine).write_text(MINE + "\n# changed\n")
    changed = run_of(f"rl.rewards=['grade', '{mine}:early']")
    assert plain == run_of("rl.rewards=[{name: grade, weight: 1}]")
    assert len({plain, first, weighed, changed}) == 4
