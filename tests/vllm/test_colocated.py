"""TRL's colocated engine, the real one: seeded by us, and gone from the environment."""

import os
from functools import partial

import pytest
from accelerate import Accelerator
from trl.generation import vllm_generation
from trl.generation.vllm_generation import VLLMGeneration

from sage_cli.models.loading import load_model
from sage_cli.models.tokenizer import load_tokenizer
from sage_cli.training.rollouts import as_launched, ask_for_each_row, engine_as_asked, engine_seed

pytestmark = pytest.mark.timeout(1800)


def test_a_colocated_engine_draws_for_each_row_and_leaves_no_trace(folder, monkeypatch):
    """Without the hand-over of weights, which needs a GPU."""
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    quick = partial(vllm_generation.LLM, enforce_eager=True, dtype="float32")
    monkeypatch.setattr(vllm_generation, "LLM", quick)
    before = dict(os.environ)
    with as_launched(), engine_as_asked(7, 3, "raw_logprobs"):
        made = VLLMGeneration(
            model, Accelerator(cpu=True), tokenizer, max_model_length=64, max_completion_length=12
        )
    for name in (
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "VLLM_ENABLE_V1_MULTIPROCESSING",
    ):
        assert os.environ.get(name) == before.get(name), name
    assert made.llm.llm_engine.vllm_config.model_config.seed == engine_seed(7, 0, 3)
    assert made.llm.llm_engine.vllm_config.model_config.logprobs_mode == "raw_logprobs"
    ask_for_each_row(made)
    rows = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("1+1=", "2+3=")]
    drawn = made.generate(
        prompts=[row for row in rows for _ in range(8)], images=None, num_generations=8
    )
    assert drawn[0] == [row for row in rows for _ in range(8)]
    assert len({tuple(ids) for ids in drawn[1]}) > 8
    assert [len(ids) for ids in drawn[1]] == [len(logps) for logps in drawn[2]]
