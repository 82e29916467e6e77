"""A model small enough for unit tests whose greedy answers don't just repeat one character."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerBase, Qwen2Config

from sage_cli.models.tokenizer import character_tokenizer

TAGS = ("<SOLUTION>", "</SOLUTION>")


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return character_tokenizer(TAGS)


@pytest.fixture(scope="session")
def make_model(tokenizer: PreTrainedTokenizerBase) -> Callable[..., Any]:
    def make(architecture: type = Qwen2Config, **changes: Any) -> Any:
        settings: dict[str, Any] = {
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "max_position_embeddings": 256,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
            "bos_token_id": None,
        }
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(architecture(**settings | changes))
        for weight in model.parameters():
            if weight.ndim == 2:
                torch.nn.init.normal_(weight, std=0.3)
        return model.eval()

    return make


@pytest.fixture(scope="session")
def model(make_model: Callable[..., Any]) -> Any:
    return make_model()


@pytest.fixture(scope="session", params=["qwen2", "grouped queries", "llama"])
def any_model(request: pytest.FixtureRequest, make_model: Callable[..., Any]) -> Any:
    changes: dict[str, dict[str, Any]] = {
        "qwen2": {},
        "grouped queries": {"num_key_value_heads": 2},
        "llama": {"architecture": LlamaConfig, "num_key_value_heads": 1},
    }
    return make_model(**changes[request.param])
