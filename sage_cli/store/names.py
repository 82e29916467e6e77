"""Which of many names a person means who types a part of one."""

from __future__ import annotations

from collections.abc import Callable, Collection
from difflib import get_close_matches

from sage_cli.errors import StoreError


def full_name(
    name: str,
    known: Collection[str],
    kind: str,
    where: str,
    listing: str,
    told: Callable[[str], str] = str,
) -> str:
    """The one of `known` that is `name`, or that `name` is an unambiguous part of.

    Beginnings and ends go before what stands within. Raises StoreError, which calls them `kind`
    and says `where` they were looked for and what command is their `listing`. Where several fit,
    `told` says what tells each from the others.
    """
    if name in known:
        return name
    fitting = [one for one in known if one.startswith(name) or one.endswith(name)]
    fitting = fitting or [one for one in known if name in one]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise StoreError(
            f"'{name}' fits {len(fitting)} {kind}s: {', '.join(map(told, sorted(fitting)))}",
            f"name one of them by more of its {'id' if kind == 'run' else 'name'}",
        )
    close = get_close_matches(name, known, n=1)
    raise StoreError(
        f"there is no {kind} '{name}' {where}",
        f"did you mean {close[0]}?" if close else f"{listing} shows what there is",
    )
