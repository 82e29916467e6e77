"""Which score of a log says what is correct."""

from __future__ import annotations

from collections.abc import Iterable

from sage_cli.errors import DataError
from sage_cli.evaluation.logs.log import Log


def choose_score(
    values: Iterable[tuple[str, object]], asked: str | None, location: str
) -> tuple[str | None, list[str]]:
    """Return the score called `asked`, by default the first verdict, with a note on the others.

    A score with a value that is not a verdict, such as a BLEU of 12.3, an F1 of .37 or a word,
    doesn't say what is correct. Raises DataError if such a score or one that is not there is asked
    for.
    """
    stated = [(name, value) for name, value in values if value is not None]
    names = dict.fromkeys(name for name, _ in stated)
    beyond = {name: str(value)[:60] for name, value in stated if read_verdict(value) is None}
    if asked in beyond:
        raise DataError(
            f"{location}: {asked} is {beyond[asked]} for a sample, which is neither "
            "correct nor wrong",
            "a verdict must be 1, 0 or -1: choose another score, or leave out --score",
        )
    scores = [name for name in names if name not in beyond]
    if asked is not None and asked not in scores:
        raise DataError(
            f"{location} has no score '{asked}'",
            f"its scores are {', '.join(scores)}" if scores else "leave out --score",
        )
    chosen = asked or (scores[0] if scores else None)
    others = [f"{name} (no verdict: {beyond[name]})" if name in beyond else name for name in names]
    others = [other for other in others if other != chosen]
    several = asked is None and len(scores) > 1
    hint = f" ({chosen} is taken; --score NAME takes another)" if several else ""
    return chosen, [f"scores not taken: {', '.join(others)}{hint}"] if others else []


def without_verdict(log: Log) -> Log:
    """Return a log without its samples that have no verdict, if others have one.

    A log in which no sample has one is graded by a judge, if it has golds.
    """
    unscored = [sample.correct is None for sample in log.samples]
    if all(unscored):
        return log
    return log.without(f"they have no {log.score or 'verdict'}", unscored)


def read_verdict(value: object) -> bool | None:
    """Return True for a score of 1, False for 0 and -1, None for what is not a verdict."""
    return value == 1 if isinstance(value, int | float) and value in (-1, 0, 1) else None
