"""A model small enough for unit tests whose greedy answers don't just repeat one character."""

from functools import partial

import pytest
from random_model import random_model
from transformers import LlamaConfig

from sage_cli.models.tokenizer import character_tokenizer

TAGS = ("<SOLUTION>", "</SOLUTION>")


@pytest.fixture(scope="session")
def tokenizer():
    return character_tokenizer(TAGS)


@pytest.fixture(scope="session")
def make_model(tokenizer):
    return partial(random_model, tokenizer)


@pytest.fixture(scope="session")
def model(make_model):
    return make_model()


@pytest.fixture(scope="module", params=["qwen2", "grouped queries", "llama"])
def any_model(request, make_model):
    changes = {
        "qwen2": {},
        "grouped queries": {"num_key_value_heads": 2},
        "llama": {"architecture": LlamaConfig, "num_key_value_heads": 1},
    }
    return make_model(**changes[request.param])
