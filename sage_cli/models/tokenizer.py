"""Tokenizers: loaded beside a model, or made for a model from scratch.

Those that are made have a token per character, or are BPE trained on texts.
"""

from __future__ import annotations

import json
import string
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sage_cli.errors import DataError
from sage_cli.models.folders import load_explained, model_files
from sage_cli.models.hub_cache import pinned_revision
from sage_cli.models.tokenizer_facts import tokenizer_facts
from sage_cli.settings.model import ScratchModel
from sage_cli.settings.prompt import PromptSection

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer

TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "tokenizer.model", "vocab.txt")
"""Without any of these Transformers makes up an empty tokenizer and says nothing."""
END, PAD = "<|end|>", "<|pad|>"
_SPACE = "Ġ"  # how byte-level tokenizers spell a space


def load_tokenizer(
    path: str | Path, *, revision: str | None = None, trust_remote_code: bool = False
) -> PreTrainedTokenizerFast:
    """Return the tokenizer beside a model, padding on the left and with a padding token.

    Raises DataError when the folder has none.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    facts, folder = tokenizer_facts(model_files(str(path), revision)), Path(path)
    if folder.is_dir() and not any((folder / name).is_file() for name in TOKENIZER_FILES):
        raise DataError(
            f"no tokenizer can be loaded from {path}: it contains none of "
            + ", ".join(TOKENIZER_FILES),
            "give a folder with tokenizer.json, or a Hub model",
        )
    with load_explained("tokenizer", path, "a folder with tokenizer.json"):
        commit = pinned_revision(str(path), revision)
        given = {"revision": commit, "trust_remote_code": trust_remote_code}
        tokenizer = AutoTokenizer.from_pretrained(str(path), **given)
        # a byte-level tokenizer.json whose class is called Llama's is read as SentencePiece's
        if " " not in tokenizer.decode(tokenizer("a a", add_special_tokens=False)["input_ids"]):
            tokenizer = PreTrainedTokenizerFast.from_pretrained(str(path), **given)
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if facts and facts.begins_with_bos and not tokenizer("")["input_ids"]:
        tokenizer.add_bos_token = True  # Transformers 5 leaves the entry out beside tokenizer.json
    return tokenizer


def keep_tags(tokenizer: Any, prompt: PromptSection) -> None:
    """Make the prompt's tags ordinary tokens of `tokenizer`: decoding leaves out special ones."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    special = {t.content for t in tokenizer.added_tokens_decoder.values() if t.special}
    if backend is None or special.isdisjoint(prompt.tags):
        return
    state = json.loads(backend.to_str())
    for token in state["added_tokens"]:
        token["special"] = token["special"] and token["content"] not in prompt.tags
    tokenizer._tokenizer = type(backend).from_str(json.dumps(state))


def character_tokenizer(tags: Iterable[str]) -> Qwen2Tokenizer:
    """One token per printable ASCII character, per tag, and for end and padding.

    Any other character reads as nothing.
    """
    printable = [*sorted(set(string.printable) - set(string.whitespace)), _SPACE]
    return _tokenizer({character: index for index, character in enumerate(printable)}, [], tags)


def bpe_tokenizer(texts: Iterable[str], vocabulary: int, tags: Iterable[str]) -> Qwen2Tokenizer:
    """BPE trained on `texts`; `vocabulary` counts the entries before tags, end and padding."""
    from tokenizers import trainers
    from transformers import Qwen2Tokenizer

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
    from tokenizers import AddedToken
    from transformers import Qwen2Tokenizer

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
