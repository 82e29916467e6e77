"""Items of two answers, compared in any order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sage_cli.grading.mathematics.structure import split

Equal = Callable[[str, str], bool | None]
"""(gold, answer) -> their equality."""


def same_items(
    gold: Sequence[str], answer: Sequence[str], equal: Equal, exactly: Equal
) -> bool | None:
    """Return True if the answer's items are the gold's in some order, some of them repeated.

    `exactly` is the equality without tolerance or algebra, by which a repetition counts.
    """
    names = _assigned_names(gold)
    if len(answer) < len(gold) or (not names and len(_assigned_names(answer)) > 1):
        return False
    # {2, 2, 3} for {2, 3} repeats a member and is right as a set; a gold that has a root twice
    # counts it, and then the answer's number of times matters.
    gold_repeats = any(exactly(a, b) for i, a in enumerate(gold) for b in gold[:i])
    may_repeat = len(answer) > len(gold) and len(names) < 2 and not gold_repeats
    unmatched, unknown = list(gold), False
    matched: list[str] = []
    for item in answer:
        results = [equal(candidate, item) for candidate in unmatched]
        if True in results:
            del unmatched[results.index(True)]
            matched.append(item)
        elif None in results:
            unknown = True
        # in x=1, y=1 the second item repeats the first and isn't the gold's x=1
        elif not (
            may_repeat
            and any(exactly(earlier, item) for earlier in matched)
            and any(equal(candidate, item) for candidate in gold)
        ):
            return False
    return None if unknown else not unmatched


def all_true(results: Iterable[bool | None]) -> bool | None:
    """Return False if any result is False, else None if any is None, else True."""
    unknown = False
    for result in results:
        if result is False:
            return False
        unknown = unknown or result is None
    return None if unknown else True


def _assigned_names(items: Sequence[str]) -> set[str]:
    """Return the names that items are assigned to."""
    return {parts[0] for item in items if len(parts := split(item, "=")) > 1}
