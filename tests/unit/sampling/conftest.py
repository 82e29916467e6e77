"""A model small enough for unit tests whose greedy answers don't just repeat one character."""

from functools import partial

import pytest
import torch
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
def generated(tokenizer):
    """Text and number of tokens by transformers' own greedy loop, which ends at `end`, too."""

    def generate(model, prompt, max_tokens, end=()):
        ids_1T = tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
        output_1T = model.generate(
            input_ids=ids_1T,
            attention_mask=torch.ones_like(ids_1T),
            do_sample=False,
            max_new_tokens=max_tokens,
            eos_token_id=[tokenizer.eos_token_id, *tokenizer.convert_tokens_to_ids(list(end))],
        )
        new_T = output_1T[0, ids_1T.shape[1] :]
        return tokenizer.decode(new_T, skip_special_tokens=True), len(new_T)

    return generate


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
