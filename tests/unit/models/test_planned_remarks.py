"""What a run says of its objective."""

import pytest

from sage_cli.config.schema import SageConfig
from sage_cli.models.planned import remarks


def said(**sections):
    return remarks(SageConfig.model_validate(sections))


def test_estimator_reference_kl_and_dropout_are_named():
    (line,) = said(anchor={"estimator": "reward", "reference": "base", "beta": 0.1})
    assert "beta 0.1" in line
    assert "reference: base" in line
    assert "estimator reward" in line
    assert said(anchor={"kl": "none"}) == ["no KL anchor: no reference is loaded"]
    assert "8 completions per prompt" in said(anchor={"kl": "forward"})[0]
    lora = {"tuning": "lora", "lora": {"dropout": 0.1}}
    assert "model.lora.dropout 0.1 doesn't act in RL, which trains without dropout" in said(
        model=lora
    )
    assert not any("dropout" in line for line in said(model={"tuning": "lora"}))
    assert not any("dropout" in line for line in said(model=lora | {"tuning": "full"}))


@pytest.mark.parametrize(("estimator", "warned"), [("k3", 0), ("k3-corrected", 1), ("reward", 0)])
def test_branch_is_warned_about_where_it_does_nothing(estimator, warned):
    lines = said(guide={"name": "branch"}, anchor={"estimator": estimator})
    assert sum(line.startswith("warning: branch") for line in lines) == warned


@pytest.mark.parametrize(("rl", "remarked"), [
    ({}, 0),
    ({"epsilon_high": 0.28}, 1),
    ({"epsilon_high": 0.28, "iterations": 2}, 0),
    ({"epsilon_low": 0.1, "steps_per_generation": 2}, 0),
    ({"epsilon_high": 0.28, "clip": False}, 0),
])  # fmt: skip
def test_a_clip_range_that_cannot_act_is_remarked_on(rl, remarked):
    lines = said(rl=rl)
    assert sum("0.2 / 0.28 never acts: with one update" in line for line in lines) == remarked
