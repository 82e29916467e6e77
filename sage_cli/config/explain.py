"""Turn the schema's complaints into sentences: where, what, and what was probably meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from sage_cli.config.fields import keys_at, members, settings

_NAME = re.compile(r"[a-z_]+(?:\.[a-z_0-9]+)+")


def explain(error: ValidationError) -> list[str]:
    """One sentence for every problem that `error` found, in the schema's order."""
    sentences: list[str] = []
    for complaint in error.errors():
        sentences += _sentences(complaint)
    return sentences


def remedy(problems: Sequence[str]) -> str:
    """Return the next step for `problems`: where the first setting that they name is explained."""
    known = settings()
    for name in _NAME.findall("\n".join(problems)):
        if name in known:
            return f"`sage config explain {name}` says what it takes"
    return "`sage config show` prints every setting with its default"


def _sentences(complaint: Any) -> list[str]:
    path = _path(complaint["loc"])
    name, kind, given = ".".join(path), complaint["type"], complaint.get("input")
    if kind == "extra_forbidden":
        return [_unknown_key(path, member=complaint["loc"][1] if len(complaint["loc"]) > 2 else "")]
    if kind in ("literal_error", "union_tag_invalid"):
        expected = complaint["ctx"].get("expected") or complaint["ctx"].get("expected_tags")
        known = re.findall(r"'([^']*)'", str(expected))
        if kind == "union_tag_invalid":
            name, given = f"{name}.kind", complaint["ctx"].get("tag")
        return [f"{name} is '{given}'; it can be {', '.join(known)}{_meant(str(given), known)}"]
    if kind == "value_error":
        text = str(complaint["ctx"]["error"])
        if not path:
            return text.splitlines()
        known = re.findall(r"[\w-]+", text.partition("known: ")[2])
        typed = given.get("name") if isinstance(given, dict) else given
        return [f"{name}: {text}{_meant(str(typed), known) if known else ''}"]
    message = complaint["msg"][0].lower() + complaint["msg"][1:]
    return [f"{name} is {given!r}: {message}"]


def _unknown_key(path: Sequence[str], member: str | int) -> str:
    """A key that no section has, or one that belongs to another member of a union."""
    *above, key = path
    known = keys_at(above)
    where = ".".join(above) or "the configuration"
    if key in known and where == "rl":
        having = [name for name, one in members(where).items() if key in one.model_fields]
        return f"rl.{key} belongs to {', '.join(having)}: add --algo {having[0]}, or leave it out"
    if key in known:
        return f"{where} '{member}' has no '{key}': name the {where} that has it, too"
    return f"{where} has no '{key}'{_meant(key, known) or '; it has ' + ', '.join(known)}"


def _meant(given: str, known: Sequence[str]) -> str:
    close = get_close_matches(given, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]}?)" if close else ""


def _path(location: Sequence[str | int]) -> list[str]:
    """The setting's name: pydantic puts a union's tag after its section, which nobody typed."""
    path = [str(part) for part in location]
    if path[:1] in (["guide"], ["model"]) and len(path) > 1:
        path.pop(1)
    return path
