r"""The contents of the last closed \boxed{...}: of published solutions and of completions."""

from __future__ import annotations

import re

_BOX_OR_BRACE = re.compile(r"\\(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)


def last_boxed(text: str) -> str | None:
    r"""The contents, braces inside included, of the closed \boxed{} or \fbox{} that begins last.

    Escaped braces (`\{`) are text, an inner box counts rather than the one around it, and a box
    that never closes is none. None without a box; linear in the length of `text`.
    """
    last = max(text.rfind(r"\boxed"), text.rfind(r"\fbox"))
    # what follows the last one is read first, which is mostly enough
    return None if last < 0 else _closed_box(text, last) or _closed_box(text, 0)


def _closed_box(text: str, begin: int) -> str | None:
    open_braces: list[tuple[int, bool]] = []
    found = (-1, -1)
    for match in _BOX_OR_BRACE.finditer(text, begin):
        token = match.group()
        if token[-1] == "{" and token != r"\{":
            open_braces.append((match.end(), len(token) > 1))
        elif token == "}" and open_braces:
            opened, is_box = open_braces.pop()
            if is_box:
                found = max(found, (opened, match.start()))
            if begin and not open_braces:
                break
    return text[slice(*found)] if found[0] >= 0 else None
