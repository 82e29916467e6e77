"""The name that a part of it means."""

from __future__ import annotations

from collections.abc import Callable, Collection

from sage_cli.errors import (
    StoreError,
    did_you_mean,
)


def full_name(
    name: str,
    names: Collection[str],
    kind: str,
    searched: str,
    listing: str,
    described: Callable[[str], str] = str,
) -> str:
    """Return the one of `names` that is `name`, or that `name` is an unambiguous part of.

    A prefix or suffix is preferred to a part in the middle. Raises StoreError with the names'
    `kind`, where they were `searched` and the command of their `listing`; if several fit, each is
    named by `described`.
    """
    fitting = fitting_names(name, names)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise StoreError(
            f"'{name}' matches {len(fitting)} {kind}s: "
            f"{', '.join(map(described, sorted(fitting)))}",
            f"type more of its {'ID' if kind == 'run' else 'name'}",
        )
    raise StoreError(
        f"there is no {kind} '{name}' {searched}",
        did_you_mean(name, names) or f"{listing} lists all",
    )


def fitting_names(name: str, names: Collection[str]) -> list[str]:
    """Return the one of `names` that is `name`, or else all that `name` is a part of.

    A prefix or suffix is preferred to a part in the middle.
    """
    if name in names:
        return [name]
    ends = [full for full in names if full.startswith(name) or full.endswith(name)]
    return ends or [full for full in names if name in full]
