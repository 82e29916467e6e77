"""Worked answers for supervised warm-up, from whatever `data.sft` names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from sage_cli.errors import ConfigurationError
from sage_cli.problems.generated.generator import Generator
from sage_cli.problems.load import worked_rows
from sage_cli.problems.problem import Demonstration
from sage_cli.problems.registry import generator_of
from sage_cli.problems.rows import is_number
from sage_cli.settings.own_code import named
from sage_cli.settings.sections.data import DataSection
from sage_cli.settings.sections.training import SftSection

THINK = re.compile(r"</?think>")


def load_demonstrations(
    data: DataSection, sft: SftSection, length: Callable[[Demonstration], int] | None = None
) -> list[Demonstration]:
    """Return the demonstrations that `data.sft` names, in the order of their source.

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
    """Return the generator that `data.sft` names, itself or by its training split; else None."""
    kind = generator_of(data.sft.name) if data.sft.split is None else None
    if kind is None or not kind.demonstrates():
        return None
    with named("generator", kind):
        return kind.from_data(data)


def wanted(data: DataSection, sft: SftSection) -> int:
    """Return the number of generated demonstrations; ConfigurationError if no setting gives one."""
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
