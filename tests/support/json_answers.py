"""Check that what a command printed fits its schema."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from sage_cli.cli.terminal.schemas import ANSWERS, ERROR, schema


@cache
def validator(command: str) -> Draft202012Validator:
    """Return the validator of `runs list`, or of `error`."""
    return Draft202012Validator(schema(command))


def command_of(words: Sequence[str]) -> str:
    """`runs list` of `runs list --json`."""
    two = " ".join(words[:2])
    return two if two in ANSWERS else words[0]


def misfits(command: str, answer: Any) -> list[str]:
    """What the schema has against an answer, each with its place."""
    return [
        f"{error.json_path}: {inner.json_path}: {inner.message}"[:400]
        for error in validator(command).iter_errors(answer)
        for inner in (error.context or [error])
    ]


def require_fit(words: Sequence[str], answer: Any) -> None:
    """Fail where an answer, or an error's object, isn't what its schema says."""
    command = ERROR if isinstance(answer, dict) and set(answer) == {ERROR} else command_of(words)
    assert not misfits(command, answer), f"sage {' '.join(words)}"
