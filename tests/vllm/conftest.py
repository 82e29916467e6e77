"""The real vLLM engine: collected only where vLLM is installed (`make test-vllm`)."""

import os
from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("vllm") else ["test_*.py"]

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")


def policy(folder, std):
    """Save random weights in a folder, large enough that answers differ from each other."""
    from random_model import random_model

    from sage_cli.models.tokenizer import character_tokenizer

    tokenizer = character_tokenizer(["<SOLUTION>", "</SOLUTION>"])
    sizes = {"hidden_size": 128, "intermediate_size": 256, "num_key_value_heads": 2}
    random_model(tokenizer, std=std, **sizes).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The folder of a small model."""
    return policy(tmp_path_factory.mktemp("model"), 0.15)


@pytest.fixture(scope="session")
def unsure(tmp_path_factory):
    """One with entropies high enough for min_p to leave something out."""
    return policy(tmp_path_factory.mktemp("policy"), 0.1)
