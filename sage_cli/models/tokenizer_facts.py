"""What the files of a tokenizer say, read without loading it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sage_cli.models.folders import read_json


@dataclass(frozen=True)
class TokenizerFacts:
    """What a prompt template asks of a tokenizer, and where it was read.

    `begins_with_bos` says whether the tokenizer puts `bos_token` before every text.
    """

    eos_token: str | None
    chat_template: Any
    name_or_path: str = ""
    bos_token: str | None = None
    begins_with_bos: bool = False

    def apply_chat_template(
        self, conversation: Sequence[Mapping[str, str]], *, tokenize: bool, **given: Any
    ) -> str:
        """Return a conversation as text, as Transformers renders it."""
        assert not tokenize
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def refuse(message: str) -> None:
            raise TemplateError(message)

        def as_json(value: Any, **_: Any) -> str:
            return json.dumps(value, ensure_ascii=False)

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = as_json
        named = self.chat_template
        template = named["default"] if isinstance(named, dict) else named
        # marks of what a training learns from, unknown to Jinja itself
        template = re.sub(r"\{%-?\s*(?:end)?generation\s*-?%\}", "", template)
        tokens = {"bos_token": self.bos_token, "eos_token": self.eos_token}
        given |= {name: token for name, token in tokens.items() if token is not None}
        return environment.from_string(template).render(
            messages=conversation, raise_exception=refuse, **given
        )


def tokenizer_facts(folder: Path) -> TokenizerFacts | None:
    """Return the facts of the tokenizer in `folder`; None where its files don't tell."""
    config = read_json(folder / "tokenizer_config.json")
    if not config:
        return None
    ends, bos = _text(config.get("eos_token")), _text(config.get("bos_token"))
    begins = bos is not None and bool(config.get("add_bos_token") or _first_added(folder) == bos)
    return TokenizerFacts(ends, _chat_template(folder, config), str(folder), bos, begins)


def stored_tokens(folder: Path) -> tuple[dict[str, int], set[str], str | None] | None:
    """Return a tokenizer's ids by token, those that only templates write, and its end ('': unsaid).

    None where the files in `folder` don't tell.
    """
    config = read_json(folder / "tokenizer_config.json")
    stored = read_json(folder / "tokenizer.json")
    ids = (stored.get("model") or {}).get("vocab")
    if not config or not ids or not isinstance(ids, dict):
        return None
    added = stored.get("added_tokens") or []
    ids |= {token["content"]: token["id"] for token in added}
    named = [_text(config.get(f"{name}_token")) for name in ("bos", "eos", "unk", "pad")]
    for token in filter(None, named):  # Transformers adds those that the vocabulary lacks
        ids.setdefault(token, max(ids.values()) + 1)
    special = {token["content"] for token in added if token.get("special")}.difference(named)
    # without an entry some classes have an end of their own
    return ids, special, named[1] if "eos_token" in config else ""


def _first_added(folder: Path) -> str | None:
    """Return the special token that tokenizer.json has put before a text; None without one."""
    try:
        text = (folder / "tokenizer.json").read_text(encoding="utf-8")
        # the vocabulary behind it has some hundred thousand entries
        _, _, rest = text.partition('"post_processor":')
        processor = json.JSONDecoder().raw_decode(rest.lstrip())[0] or {}
    except (OSError, ValueError):
        return None
    for step in processor.get("processors", [processor]):
        if "cls" in step:
            return str(step["cls"][0])
        for piece in step.get("single", [])[:1]:
            return (piece.get("SpecialToken") or {}).get("id")
    return None


def _chat_template(folder: Path, config: dict[str, Any]) -> Any:
    """Return the template that Transformers takes: a file of its own before the entry."""
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        return {entry["name"]: entry["template"] for entry in template}
    return template


def _text(token: Any) -> str | None:
    """Return a token's text; it is stored as that or as an object that holds it."""
    text = token.get("content") if isinstance(token, dict) else token
    return str(text) if text is not None else None
