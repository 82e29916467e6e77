"""A handful of rollouts, by the real engine and the real trainer, on the toy policy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy_policy import PROMPTS, configuration

from sage_cli.config.specs import RlSpec
from sage_cli.models.policies.policy import Policy
from sage_cli.training.rollouts import probe as probing
from sage_cli.training.rollouts.probe import Probe, probe

pytestmark = pytest.mark.slow


def probed(base: Path, folder: Path, **rollout: Any) -> Probe:
    prompt = {"format": "plain", "system": None}
    config = configuration(model={"tuning": "full"}, prompt=prompt, rollout=rollout)
    problems = [problem for _, problem in PROMPTS]
    return probe(RlSpec.of(config), Policy(str(base)), problems, folder / "probe")


@pytest.mark.parametrize("backend", ["sampler", "transformers"])
def test_both_readings_of_whole_distributions_agree(base: Path, tmp_path: Path, backend: str):
    found = probed(base, tmp_path, backend=backend, temperature=0.7)
    assert (found.backend, found.reports, sum(found.ends.values())) == (backend, False, 16)
    assert set(found.ends) <= {"limit", "end-of-sequence"}
    assert np.abs(found.trainer_T - found.whole_T).max() < 1e-4
    assert np.array_equal(found.engine_T, found.kept_T)
    assert np.abs(found.kept_T - found.whole_T).max() < 1e-4
    assert np.abs(found.untempered_T - found.whole_T).max() > 0.1


def test_truncation_shows_in_the_engines_alone(base: Path, tmp_path: Path):
    found = probed(base, tmp_path, min_p=0.2)
    assert np.abs(found.trainer_T - found.whole_T).max() < 1e-4
    assert (found.engine_T >= found.whole_T - 1e-6).all()  # renormalised over fewer tokens
    assert (found.engine_T - found.whole_T).max() > 0.01


def test_no_weight_changes(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    before = {name: p.clone() for name, p in Policy(str(base)).model().named_parameters()}
    read: list[Any] = []
    plain = probing._read
    monkeypatch.setattr(probing, "_read", lambda *args: read.append(args[0]) or plain(*args))
    probed(base, tmp_path)
    after = dict(read[0].named_parameters())
    assert all(after[name].equal(p) for name, p in before.items())
