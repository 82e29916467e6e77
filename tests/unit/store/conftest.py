"""A run, its mirrors, an empty sample set, and locks that are waited for only a moment."""

import pytest
from stored import IDENTITY

from sage_cli.store import locks
from sage_cli.store.mirrors import mirrors_of
from sage_cli.store.run import Runs
from sage_cli.store.sample_set import SampleSet


@pytest.fixture(autouse=True)
def _moments(monkeypatch):
    """Let nobody here wait as long as on a busy file server."""
    monkeypatch.setattr(locks, "PATIENCE_S", 0.05)
    monkeypatch.setattr(locks, "_SETTLE_S", 0.02)


@pytest.fixture
def samples(tmp_path):
    return SampleSet(tmp_path, IDENTITY)


@pytest.fixture
def run(tmp_path):
    """A run of RL that has begun."""
    run = Runs(tmp_path).at("rl", "dapo-branch", "1" * 8)
    config = {"tracking": {"project": "sage", "group": "tau-rho-1"}, "rl": {"a": 1}}
    with run.recording(config, kind="rl"):
        return run


@pytest.fixture
def rollout():
    """A row of rollouts.jsonl, of a step."""
    kept = {"completion": "|12|\nso 12", "gold": "12", "grade": "right", "reward": 1.0}
    return lambda step: {"step": step, "prompt": f"{step}*3=?", **kept}


@pytest.fixture
def train(rollout):
    """What a training does at every step: first the files, then the mirrors."""

    def write(run, steps, tracking):
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

    return write


@pytest.fixture
def resume_at():
    """What a training does that goes on from a checkpoint."""

    def rewind(run, step):
        run.metrics.rewind(step)
        run.rollouts.rewind(step)

    return rewind
