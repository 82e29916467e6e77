"""Demonstrations of `data.sft`, in the order in which SFT takes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.problems.data_set import DataSet
from sage_cli.problems.golds import is_plain_number
from sage_cli.problems.problem import Demonstration, Generated, Generator, Problem
from sage_cli.problems.registry import generated, members
from sage_cli.problems.sources import open_source
from sage_cli.settings.data import DataSection, SourceSection
from sage_cli.settings.sft import SftSection
from sage_cli.solution_text import unmarked

log = logging.getLogger(__name__)


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
        return generator.demonstrations(count, sft.batch_size)
    demonstrations = list(_suitable(data, sft.max_length, length))[: data.sft.limit]
    if not demonstrations:
        raise ConfigurationError(
            "data.sft.numeric_only and data.sft.max_prompt_share leave no "
            f"demonstration of {data.sft.name}",
            "relax them, or choose another data set",
        )
    return demonstrations


def demonstrator(data: DataSection) -> Generator | None:
    """Return the generator that `data.sft` names, itself or by its training split; else None."""
    entry = generated(data.sft.name) if data.sft.split is None else None
    if entry is None or entry.split == "validation" or not entry.generator.demonstrates():
        return None
    return entry.made(data)


def wanted(data: DataSection, sft: SftSection) -> int:
    """Return the number of generated demonstrations; ConfigurationError if no setting gives one."""
    if data.sft.limit is not None:
        return data.sft.limit
    if sft.steps is None:
        raise ConfigurationError(
            "generated demonstrations are unlimited, and neither sft.steps nor "
            "data.sft.limit is set",
            "set one of them, for example --set sft.steps=850",
        )
    return sft.steps * sft.batch_size


def worked_rows(source: SourceSection, data: DataSection) -> Iterator[tuple[Problem, str | None]]:
    """Yield each row's problem and its working-out, None where the user named no column of them."""
    for member in members(source.name, source.split):
        declared = member if isinstance(member, DataSet) and member.question else None
        if isinstance(member, Generated) or (declared and not declared.working):
            raise DataError(
                f"{source.name} has no worked solutions to learn from",
                "choose a data set that has them (arithmetic, openmathreasoning-mini, "
                "asdiv, svamp), or a file and its column with data.sft.fields.working",
            )
        if not declared and source.fields.working is None:
            log.warning("%s: SFT learns golds alone: data.sft.fields.working is null", source.name)
        yield from open_source(member, data, source.fields).worked()


def _suitable(
    data: DataSection, max_length: int, length: Callable[[Demonstration], int] | None
) -> Iterator[Demonstration]:
    source = data.sft
    longest = source.max_prompt_share * max_length
    for problem, working in worked_rows(source, data):
        if source.numeric_only and not is_plain_number(problem.golds[0]):
            continue
        shown = None if working is None else unmarked(working)
        demonstration = Demonstration(problem.question, shown, problem.golds[0])
        if length is None or source.max_prompt_share == 1 or length(demonstration) <= longest:
            yield demonstration
