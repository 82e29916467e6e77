"""Worked answers: for supervised warm-up, from whatever `data.sft` names, and as hints in RL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.methods.guided_dpo import GuidedDpo
from sage_cli.problems.generated.generator import Generator
from sage_cli.problems.gold import is_number
from sage_cli.problems.load import worked_rows
from sage_cli.problems.problem import Demonstration, Problem, problem_id
from sage_cli.problems.registry import generator_of
from sage_cli.settings.plugins import named
from sage_cli.settings.sections.data import DataSection, SourceSection
from sage_cli.settings.sections.training import SftSection

THINK = re.compile(r"</?think>")


def load_demonstrations(
    data: DataSection, sft: SftSection, length: Callable[[Demonstration], int] | None = None
) -> list[Demonstration]:
    """The demonstrations that `data.sft` names, in the order of their source.

    `length` counts the tokens of what `data.sft.measured` names; those above
    `data.sft.max_prompt_share` of `sft.max_length` are left out, none without it. Generators make
    as many as are wanted: `data.sft.limit`, or as many as `sft.steps` takes in.
    Raises DataError for rows that can't be used, ConfigurationError when nothing is left.
    """
    generator = demonstrator(data)
    if generator is not None:
        count = wanted(data, sft)
        with named("generator", type(generator)):
            return generator.demonstrations(count, sft.batch_size)
    demonstrations = list(_suitable(data, sft.max_length, length))[: data.sft.limit]
    if not demonstrations:
        raise ConfigurationError(
            f"no demonstration of {data.sft.name} is left by data.sft.numeric_only and "
            "data.sft.max_prompt_share",
            "loosen them, or name another source",
        )
    return demonstrations


def demonstrator(data: DataSection) -> Generator | None:
    """The generator that `data.sft` names, by its own name or its training split's; else None."""
    kind = generator_of(data.sft.name) if data.sft.split is None else None
    if kind is None or not kind.demonstrates():
        return None
    with named("generator", kind):
        return kind.of(data)


def wanted(data: DataSection, sft: SftSection) -> int:
    """The number of generated demonstrations; ConfigurationError if no setting gives one."""
    if data.sft.limit is not None:
        return data.sft.limit
    if sft.steps is None:
        raise ConfigurationError(
            "generated demonstrations never end, and neither sft.steps nor data.sft.limit is set",
            "use --set sft.steps=850",
        )
    return sft.steps * sft.batch_size


def _suitable(
    data: DataSection, max_length: int, length: Callable[[Demonstration], int] | None
) -> Iterator[Demonstration]:
    source = data.sft
    longest = source.max_prompt_share * max_length
    for problem, working in worked_rows(source, data):
        if source.numeric_only and not is_number(problem.gold):
            continue
        demonstration = Demonstration(
            problem.question, THINK.sub("", working).strip(), problem.gold
        )
        if length is None or source.max_prompt_share == 1 or length(demonstration) <= longest:
            yield demonstration


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


def hinted(problem: Problem, method: GuidedDpo, lines: int) -> Problem | None:
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


def require_hints(problems: Sequence[Problem], source: SourceSection, method: GuidedDpo) -> None:
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
