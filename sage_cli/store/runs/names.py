"""Names from a part that a person types."""

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
    described: Callable[[str], str] = str,
) -> str:
    """Return the one of `known` that is `name`, or that `name` is an unambiguous part of.

    A prefix or suffix is preferred to a part in the middle. Raises StoreError with the names'
    `kind`, `where` they were searched and the command of their `listing`; if several fit, each is
    named by `described`.
    """
    if name in known:
        return name
    fitting = [full for full in known if full.startswith(name) or full.endswith(name)]
    fitting = fitting or [full for full in known if name in full]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise StoreError(
            f"'{name}' fits {len(fitting)} {kind}s: {', '.join(map(described, sorted(fitting)))}",
            f"name one of them by more of its {'id' if kind == 'run' else 'name'}",
        )
    close = get_close_matches(name, known, n=1)
    raise StoreError(
        f"there is no {kind} '{name}' {where}",
        f"did you mean {close[0]}?" if close else f"{listing} lists all",
    )
