"""The tokenizers of models from scratch: a token per character, or BPE trained on texts."""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Sequence

from tokenizers import AddedToken, trainers
from transformers import Qwen2Tokenizer

from sage_cli.settings.sections.model import ScratchModel

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
