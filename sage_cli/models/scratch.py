"""The model that is small enough for a laptop, saved as an ordinary Hugging Face folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from sage_cli.config.model import ScratchModel
from sage_cli.models.tokenizer import bpe_tokenizer, character_tokenizer


def build_tokenizer(
    section: ScratchModel, tags: Sequence[str], texts: Iterable[str]
) -> Qwen2Tokenizer:
    """The tokenizer that `section` describes; `texts` are read only to train a BPE vocabulary."""
    if section.tokenizer == "characters":
        return character_tokenizer(tags)
    return bpe_tokenizer(texts, section.vocabulary, tags)


def build_scratch(section: ScratchModel, tokenizer: Qwen2Tokenizer) -> Qwen2ForCausalLM:
    """The model that `section` describes, with random weights drawn from its seed."""
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


def save_scratch(
    section: ScratchModel, tags: Sequence[str], texts: Iterable[str], folder: Path
) -> None:
    """Write tokenizer and freshly initialised weights to `folder` (safetensors)."""
    tokenizer = build_tokenizer(section, tags, texts)
    build_scratch(section, tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
