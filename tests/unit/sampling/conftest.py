"""A model small enough for unit tests whose greedy answers don't just repeat one character."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from random_model import random_model
from transformers import LlamaConfig, PreTrainedTokenizerBase

from sage_cli.models.scratch import character_tokenizer

TAGS = ("<SOLUTION>", "</SOLUTION>")


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerBase:
    return character_tokenizer(TAGS)


@pytest.fixture(scope="session")
def make_model(tokenizer: PreTrainedTokenizerBase) -> Callable[..., Any]:
    return partial(random_model, tokenizer)


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
