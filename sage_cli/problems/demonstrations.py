"""Worked answers for supervised warm-up, from whatever `data.sft` names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.problems.generated.arithmetic.problems import ArithmeticProblems
from sage_cli.problems.generated.word_problems.demonstrations import word_problem_demonstrations
from sage_cli.problems.gold import is_number
from sage_cli.problems.load import worked_rows
from sage_cli.problems.problem import Demonstration

Maker = Callable[[SageConfig, int], list[Demonstration]]
MAKERS: Mapping[str, Maker] = {
    "arithmetic": lambda config, count: ArithmeticProblems(config.data.arithmetic).demonstrations(
        count
    ),
    "word-problems": lambda config, count: word_problem_demonstrations(
        config.data, count, config.sft.batch_size
    ),
}
"""Sources that make as many demonstrations as are wanted."""

_THINK = re.compile(r"</?think>")


def load_demonstrations(
    config: SageConfig, length: Callable[[str], int] | None = None
) -> list[Demonstration]:
    """The demonstrations of `config`, in the order of their source.

    `length` counts a text's tokens; questions longer than `data.sft.max_prompt_share` of
    `sft.max_length` are left out by it, and without it all are kept. Arithmetic and word problems
    are made to measure: `data.sft.limit` demonstrations, or as many as `sft.steps` takes in.
    Raises DataError for rows that can't be used, ConfigurationError when nothing is left.
    """
    source = config.data.sft
    if source.name in MAKERS:
        return MAKERS[source.name](config, _count(config))
    kept = list(_suitable(config, length))[: source.limit]
    if not kept:
        raise ConfigurationError(
            f"no demonstration of {source.name} is left by data.sft.numeric_only and "
            "data.sft.max_prompt_share",
            "loosen them, or name another source",
        )
    return kept


def _suitable(config: SageConfig, length: Callable[[str], int] | None) -> Iterator[Demonstration]:
    source = config.data.sft
    longest = source.max_prompt_share * config.sft.max_length
    for problem, working in worked_rows(source.name, config.data, source.fields):
        if source.numeric_only and not is_number(problem.gold):
            continue
        if length is None or source.max_prompt_share == 1 or length(problem.question) <= longest:
            working = _THINK.sub("", working).strip()
            yield Demonstration(problem.question, working, problem.gold)


def _count(config: SageConfig) -> int:
    if config.data.sft.limit is not None:
        return config.data.sft.limit
    if config.sft.steps is None:
        raise ConfigurationError(
            "generated demonstrations never end, and neither sft.steps nor data.sft.limit is set",
            "use --set sft.steps=850",
        )
    return config.sft.steps * config.sft.batch_size
