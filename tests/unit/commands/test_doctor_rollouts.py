"""What `sage doctor --rollouts` says of log-probabilities that differ, in hand-made probes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from sage_cli.commands.doctor_rollouts import (
    _difference,
    _ends,
    _precision,
    _temperature,
    _truncation,
    rollout_findings,
)
from sage_cli.config.load import load
from sage_cli.settings.sections.rollout import RolloutSection
from sage_cli.training.rollouts.probe import Probe

WHOLE = np.log([0.5, 0.25])


def made(**changed: Any) -> Probe:
    given: dict[str, Any] = {
        "backend": "vllm", "reports": True, "products": torch.float32,
        "ends": Counter({"end-of-sequence": 2}), "trainer_T": WHOLE, "engine_T": WHOLE,
        "whole_T": WHOLE, "untempered_T": WHOLE, "kept_T": WHOLE, "prompts": [[1, 2]],
    }  # fmt: skip
    return Probe(**(given | changed))


def rollout(**settings: Any) -> RolloutSection:
    return RolloutSection.model_validate({"backend": "vllm", "min_p": 0.0} | settings)


def test_the_differences_as_losses_meet_them() -> None:
    # ratios pi / pi_engine are .5 / .125 = 4, above the cap of 2, and .25 / .25 = 1
    said = _difference(made(engine_T=np.log([0.125, 0.25])), rollout()).said
    assert "2 tokens" in said
    # log 4 = 1.386, half of that on average
    assert "by 0.69 on average, at most 1.4; ratio 2.5 (1 to 4), 50.0% above the cap" in said
    assert "which it reports" in said
    assert "above the cap" not in _difference(made(reports=False), rollout()).said


def test_a_trainer_at_another_temperature() -> None:
    cold = WHOLE - 0.3
    section = rollout(temperature=0.7)
    assert _temperature(made(untempered_T=cold), section).fine
    found = _temperature(made(untempered_T=cold, trainer_T=cold), section)
    assert not found.fine
    assert "the trainer's log-probabilities are those at 1" in found.said


def test_the_share_of_probability_that_is_sampled_from() -> None:
    assert _truncation(made(), rollout()).fine
    # kept: .5 / .8 and .25 / .5, so .8 and .5 of the probability
    found = _truncation(made(kept_T=np.log([0.5 / 0.8, 0.25 / 0.5])), rollout(min_p=0.1))
    assert "from 0.6500 of the probability (least 0.5)" in found.said
    assert not found.fine


@pytest.mark.parametrize(
    ("ends", "fine"),
    [
        ({"end-of-sequence": 3, "limit": 1}, True),
        ({"limit": 4}, False),
        ({"end-of-sequence": 3, "something else": 1}, False),
    ],
)
def test_how_completions_ended(ends: dict[str, int], fine: bool) -> None:
    assert _ends(made(ends=Counter(ends)), rollout()).fine == fine


def test_rounding_is_told_from_truncation() -> None:
    kept = np.log([0.6, 0.3])
    renormalised = made(engine_T=kept, kept_T=kept)
    assert _precision(renormalised, rollout(min_p=0.1, temperature=0.9, vllm={
        "importance_correction": "none"})).fine  # fmt: skip
    # at temperature 1 the engine is asked for whole distributions
    assert not _precision(renormalised, rollout(min_p=0.1)).fine
    assert not _precision(made(trainer_T=WHOLE + 0.01), rollout()).fine
    assert _precision(made(trainer_T=WHOLE + 0.01, products=torch.bfloat16), rollout()).fine


def test_an_initial_policy_that_is_not_trained() -> None:
    (found,) = rollout_findings(load(("tiny",)).config)
    assert (found.obstacle, found.mend) == (False, "train it with `sage sft`, then ask again")
