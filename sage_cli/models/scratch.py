"""Models from scratch, small enough for a laptop, and their tokenizers.

A tokenizer has a token per character, or is BPE trained on texts.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from tokenizers import AddedToken, trainers
from transformers import Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from sage_cli.settings.inputs import ScratchModel


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


END, PAD = "<|end|>", "<|pad|>"
_SPACE = "Ġ"  # how byte-level tokenizers spell a space


def character_tokenizer(tags: Iterable[str]) -> Qwen2Tokenizer:
    """One token per printable ASCII character, per tag, and for end and padding.

    Any other character reads as nothing.
    """
    printable = [*sorted(set(string.printable) - set(string.whitespace)), _SPACE]
    return _tokenizer({character: index for index, character in enumerate(printable)}, [], tags)


def bpe_tokenizer(texts: Iterable[str], vocabulary: int, tags: Iterable[str]) -> Qwen2Tokenizer:
    """BPE trained on `texts`; `vocabulary` counts the entries before tags, end and padding."""
    core = Qwen2Tokenizer(vocab={}, merges=[]).backend_tokenizer
    alphabet = core.pre_tokenizer[1].alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    learnt = json.loads(core.to_str())["model"]
    return _tokenizer(learnt["vocab"], [tuple(pair) for pair in learnt["merges"]], tags)


def _tokenizer(
    vocabulary: dict[str, int], merges: list[tuple[str, str]], tags: Iterable[str]
) -> Qwen2Tokenizer:
    """Add the tags as ordinary tokens: special ones would vanish when rewards decode the text."""
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary,
        merges=merges,
        unk_token=None,
        eos_token=END,
        pad_token=PAD,
        padding_side="left",
    )
    tokenizer.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in tags if tag])
    return tokenizer


def build_tokenizer(
    section: ScratchModel, tags: Sequence[str], texts: Iterable[str]
) -> Qwen2Tokenizer:
    """The tokenizer that `section` describes; `texts` are read only to train a BPE vocabulary."""
    if section.tokenizer == "characters":
        return character_tokenizer(tags)
    return bpe_tokenizer(texts, section.vocabulary, tags)
