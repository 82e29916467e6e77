"""Whether what a command printed fits the schema that comes with the package."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

ERROR = "error"


@cache
def validator(command: str) -> Draft202012Validator:
    """Of `runs list`, or of `error`."""
    file = files("sage_cli") / "schemas" / f"{command.replace(' ', '-')}.json"
    return Draft202012Validator(json.loads(file.read_text()))


def command_of(words: Sequence[str]) -> str:
    """`runs list` of `runs list --json`."""
    two = " ".join(words[:2])
    name = f"{two.replace(' ', '-')}.json"
    return two if (files("sage_cli") / "schemas" / name).is_file() else words[0]


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
