"""Facts of a tokenizer for prompt templates, read from its files without loading it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.models.folders import read_json


@dataclass(frozen=True)
class TokenizerFacts:
    """The end-of-sequence token and the chat template of a tokenizer, and where it was read."""

    eos_token: str | None
    chat_template: Any
    name_or_path: str = ""


def tokenizer_facts(folder: Path) -> TokenizerFacts | None:
    """The facts of the tokenizer in `folder`; None where its files don't tell."""
    config = read_json(folder / "tokenizer_config.json")
    if not config:
        return None
    ends = _text(config.get("eos_token"))
    return TokenizerFacts(ends, _chat_template(folder, config), str(folder))


def _chat_template(folder: Path, config: dict[str, Any]) -> Any:
    """As Transformers takes it: a file of its own before the configuration's entry."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    named = config.get("chat_template")
    if isinstance(named, list):
        return {entry["name"]: entry["template"] for entry in named}
    return named


def _text(token: Any) -> str | None:
    """A token is stored as its text or as an object that holds it."""
    found = token.get("content") if isinstance(token, dict) else token
    return str(found) if found is not None else None
