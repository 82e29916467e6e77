"""The arithmetic of a step, and values that RL's loop refuses."""

import pytest
from pydantic import ValidationError

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.methods.grpo import Grpo
from sage_cli.methods.loop import StepSizes, batch_of


@pytest.mark.parametrize(
    ("micro_batch", "processes", "expected"),
    [(None, 1, (64, 1)), (8, 1, (8, 8)), (8, 2, (8, 4)), (None, 4, (16, 1))],
)
def test_a_step_is_divided(micro_batch, processes, expected):
    rl = Grpo(prompts_per_step=8, rollouts_per_prompt=8, micro_batch=micro_batch)
    assert batch_of(rl, processes) == StepSizes(64, *expected)


@pytest.mark.parametrize(
    ("micro_batch", "processes", "said"),
    [
        (5, 2, "rl.micro_batch 5 x rl.processes 2"),
        (4, 1, "rl.micro_batch 4"),
        (None, 16, "rl.micro_batch 1 x rl.processes 16"),
    ],
)
def test_a_step_that_cannot_be_divided_shows_the_arithmetic(micro_batch, processes, said):
    rl = Grpo(prompts_per_step=3, rollouts_per_prompt=5, micro_batch=micro_batch)
    with pytest.raises(ConfigurationError) as caught:
        batch_of(rl, processes)
    arithmetic = "doesn't divide the 15 completions of a step (3 prompts x 5 rollouts)"
    assert caught.value.cause == f"{said} {arithmetic}"


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"entropy_coefficient": -0.1}, "greater than or equal to 0"),
        ({"top_entropy_quantile": 1.2}, "less than or equal to 1"),
        ({"importance_sampling_level": "word"}, "'token' or 'sequence'"),
        ({"delta": 1.0}, "greater than 1"),
        ({"advantage": "gruop"}, "'group', 'none' or 'beta'"),
    ],
)
def test_values_out_of_range(values, complaint):
    with pytest.raises(ValidationError, match=complaint):
        Grpo(**values)


@pytest.mark.parametrize(
    ("sets", "complaint"),
    [
        (["delta=1.25", "epsilon_high=0.28"], r"delta 1.25 isn't above 1 \+ rl.epsilon_high 0.28"),
        (["delta=9", "loss=cispo", "epsilon_high=5"], "not by 'cispo'"),
        (["advantage=gruop"], r"^rl.advantage is 'gruop'; .*\(did you mean group\?\)$"),
    ],
)
def test_settings_that_contradict_each_other(sets, complaint):
    with pytest.raises(ConfigurationError, match=complaint):
        load(sets=[f"rl.{one}" for one in ("iterations=2", *sets)])
