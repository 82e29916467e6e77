"""A run, and trainings of it that write what a training writes and mirror it."""

import pytest

from sage_cli.store.mirrors import mirrors_of
from sage_cli.store.run import Runs


@pytest.fixture
def run(tmp_path):
    """A run of RL that has begun."""
    run = Runs(tmp_path).at("rl", "dapo-branch", "1" * 8)
    config = {"tracking": {"project": "sage", "group": "tau-rho-1"}, "rl": {"a": 1}}
    with run.recording(config, kind="rl"):
        return run


def rollout(step):
    """A row of rollouts.jsonl."""
    return {
        "step": step,
        "prompt": f"{step}*3=?",
        "completion": "|12|\nso 12",
        "gold": "12",
        "grade": "right",
        "reward": 1.0,
    }


def train(run, steps, tracking):
    """What a training does at every step: first the files, then the mirrors."""
    mirrors = mirrors_of(tracking, run)
    for step in steps:
        if step % 2:
            run.rollouts.append(rollout(step))
        record = {"step": step, "of": 4, "loss": step / 10, "clip_ratio": None}
        run.metrics.append(record)
        for mirror in mirrors:
            mirror.log(record)
    for mirror in mirrors:
        mirror.close()


def resume_at(run, step):
    """What a training does that goes on from a checkpoint."""
    run.metrics.rewind(step)
    run.rollouts.rewind(step)
