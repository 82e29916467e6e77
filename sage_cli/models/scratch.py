"""The model that is small enough for a laptop, saved as an ordinary Hugging Face folder."""

from __future__ import annotations

from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from sage_cli.settings.sections.model import ScratchModel


def build_scratch(section: ScratchModel, tokenizer: Qwen2Tokenizer) -> Qwen2ForCausalLM:
    """Return the model that `section` describes, with random weights sampled from its seed."""
    model = random_qwen2(
        tokenizer,
        seed=section.seed,
        hidden_size=section.hidden,
        intermediate_size=section.feed_forward,
        num_hidden_layers=section.layers,
        num_attention_heads=section.heads,
        num_key_value_heads=section.heads,
        max_position_embeddings=section.max_positions,
        tie_word_embeddings=section.tie_embeddings,
    )
    if section.attention is not None:
        model.set_attn_implementation(section.attention)
    return model.to(getattr(torch, section.dtype))


def random_qwen2(tokenizer: Qwen2Tokenizer, *, seed: int, **sizes: Any) -> Qwen2ForCausalLM:
    """A Qwen2 model with random weights for `tokenizer`'s vocabulary; `sizes` as Qwen2Config's."""
    ends = {
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = Qwen2Config(**{"vocab_size": len(tokenizer)} | sizes, **ends)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen2ForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model
