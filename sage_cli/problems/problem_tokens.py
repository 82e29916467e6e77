"""What a tokenizer makes of problems: lost characters, and lengths in tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sage_cli.errors import ConfigurationError
from sage_cli.problems.problem import Problem


def check_characters(problems: Sequence[Problem], tokenizer: Any) -> str:
    """Raise ConfigurationError for characters that vanish from questions and golds."""
    texts = [problem.question + "".join(problem.golds) for problem in problems]
    used = sorted({c for text in texts for c in text if not c.isspace()})
    tokens = tokenizer(used, add_special_tokens=False)["input_ids"]
    lost = [
        c for c, ids in zip(used, tokens, strict=True) if not ids or tokenizer.unk_token_id in ids
    ]
    if lost:
        affected = sum(not set(lost).isdisjoint(text) for text in texts)
        raise ConfigurationError(
            f"the tokenizer has no tokens for {' '.join(lost[:20])}: {affected:,} of "
            f"{len(problems):,} problems are read without them",
            "rewrite these questions, or choose a model whose tokenizer has these characters",
        )
    return f"the tokenizer covers all {len(used)} characters in questions and golds"


def count_tokens(texts: Sequence[str], tokenizer: Any) -> list[int]:
    """Return the number of tokens of each text, without special ones."""
    return list(map(len, tokenizer(list(texts), add_special_tokens=False)["input_ids"]))
