"""Types of weights and of products, and full tuning in types too coarse for it."""

import pytest

from sage_cli.config.load import load
from sage_cli.errors import ConfigurationError
from sage_cli.models.facts import rl_facts, sft_facts
from sage_cli.settings.model import PretrainedModel, ScratchModel, sampled_dtype, trained_dtype

FULL = ["model.kind=pretrained", "model.tuning=full", "sft.enabled=false"]


@pytest.mark.parametrize(
    ("model", "trained", "sampled"),
    [
        (PretrainedModel(), "auto", "auto"),
        (PretrainedModel(dtype="bfloat16"), "bfloat16", "bfloat16"),
        (PretrainedModel(tuning="full"), "float32", "float32"),
        (PretrainedModel(tuning="full", compute_dtype="bfloat16"), "float32", "bfloat16"),
        (ScratchModel(kind="scratch"), "float32", "float32"),
    ],
)
def test_weights_that_are_all_trained_are_float32_unless_said(model, trained, sampled):
    assert (trained_dtype(model), sampled_dtype(model)) == (trained, sampled)


@pytest.mark.parametrize(
    "sets",
    [[*FULL, "model.dtype=bfloat16"], [*FULL, "model.dtype=float16"], ["model.dtype=bfloat16"]],
)
def test_full_tuning_of_coarse_weights_is_refused_unless_asked_for(sets):
    with pytest.raises(ConfigurationError, match="all but about 1% are rounded away"):
        load(sets=sets)
    assert load(sets=[*sets, "model.allow_lost_updates=true"]).config.model.dtype != "float32"


def test_coarse_weights_that_stay_frozen_are_fine():
    lora = ["model.kind=pretrained", "model.tuning=lora", "model.dtype=bfloat16"]
    assert load(sets=lora).config.model.dtype == "bfloat16"


@pytest.mark.parametrize("preset", ["qwen2.5-math-1.5b-instruct-full", "qwen2.5-3b-instruct-full"])
def test_the_presets_of_full_tuning_keep_float32_weights(preset):
    config = load([preset]).config
    assert (config.model.dtype, config.model.compute_dtype) == ("float32", "bfloat16")
    assert sampled_dtype(config.model) == "bfloat16"  # base and policy alike


def test_a_plan_says_both_types():
    full = rl_facts(load(["qwen2.5-3b-instruct-full"]).config)
    assert full["weights"] == "float32 weights, bfloat16 compute"
    lora = load(["qwen2.5-math-7b"]).config
    said = "weights as stored, bfloat16 compute on GPUs that support it"
    assert (rl_facts(lora)["weights"], sft_facts(lora)["weights"]) == (said, said)
