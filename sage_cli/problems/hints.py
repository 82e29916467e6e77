"""A problem with the beginning of its worked solution beside the question."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sage_cli.errors import DataError
from sage_cli.methods.parts.hinting import Hinting
from sage_cli.problems.demonstrations import THINK
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.settings.sections.data import SourceSection

_PLACES = re.compile(r"\{(question|hint)\}")


def hint(working: str | None, lines: int, line_end: str) -> str | None:
    """The first `lines` lines of a worked solution, and never its last, where the answer is.

    Blank ones aren't counted. None without a solution of two lines.
    """
    pieces = THINK.sub("", working or "").strip().split(line_end)
    written = [place for place, piece in enumerate(pieces) if piece.strip()]
    if len(written) < 2:
        return None
    last = written[:-1][:lines][-1]
    return line_end.join([*pieces[: last + 1], ""])


def hinted(problem: Problem, method: Hinting, lines: int) -> Problem | None:
    """`problem` asked as `method` says, with a hint: a problem with an id of its own.

    None where there is nothing to hint at.
    """
    beginning = hint(problem.working, lines, method.line_end)
    if beginning is None:
        return None
    values = {"question": problem.question, "hint": beginning}
    question = _PLACES.sub(lambda place: values[place[1]], method.hint)
    id_ = problem_id(f"{problem.benchmark} with a hint", question, problem.gold)
    return Problem(id_, problem.benchmark, question, problem.gold)


def require_hints(problems: Sequence[Problem], source: SourceSection, method: Hinting) -> None:
    """Raise DataError where none of the problems, which are `source`'s, has a hint."""
    if any(hinted(problem, method, 1) for problem in problems):
        return
    column = f" in its column '{source.fields.working}'" if source.fields.working else ""
    solved = any(problem.working for problem in problems)
    lack = "worked solutions of a single line only" if solved else f"no worked solutions{column}"
    raise DataError(
        f"{source.name} has {lack}, and rl.algo '{method.algo}' gives the first lines of one as "
        "its hint",
        "name problems with solutions of several lines (openmathreasoning-mini), or a file and its "
        "column: --set data.rl.name=FILE --set data.rl.fields.working=COLUMN; rl.line_end "
        "says what ends a line",
    )
