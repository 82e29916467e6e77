"""Problems by name or by path: data sets, groups of them, generators, files with named columns.

The rows of a file or data set come from a local copy where there is one, else from the Hub.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sage_cli.errors import ConfigurationError, DataError
from sage_cli.problems.data_set import DataSet
from sage_cli.problems.golds import is_plain_number
from sage_cli.problems.problem import Generated, Problem
from sage_cli.problems.registry import (
    Member,
    is_file_name,
    members,
    require_known_revisions,
    trained_on,
)
from sage_cli.problems.sources import local_files, open_source
from sage_cli.settings.data import DataSection, FieldsSection

log = logging.getLogger(__name__)


def load_problems(
    names: str,
    data: DataSection,
    fields: FieldsSection | None = None,
    limit: int | None = None,
    split: str | None = None,
) -> list[Problem]:
    """Return the problems of one data set, of several (`aime,amc23`) or of a file (`mine.jsonl`).

    `fields` names a file's columns; `limit` keeps the first problems of each; `split` is one of
    the Hub's other than the declared. A row that repeats question and gold of an earlier one is
    left out, with a warning.
    Raises DataError for an unknown name, a file or column that isn't there, a problem without
    question or gold (named by its line), and an incomplete copy.
    """
    return [
        problem
        for name in benchmark_names(names)
        for problem in _each_once(name, read_problems(name, data, fields, split))[:limit]
    ]


def read_problems(
    name: str, data: DataSection, fields: FieldsSection | None = None, split: str | None = None
) -> list[Problem]:
    """Return one problem for every row of one data set or file, repetitions included."""
    require_known_revisions(data.revisions)
    benchmark = Path(name).name if is_file_name(name) else name
    problems = [
        replace(problem, benchmark=benchmark)
        for member in members(name, split)
        for problem in _problems(member, data, fields)
    ]
    if not problems:
        raise DataError(f"{name} contains no problems", "check the file")
    return problems


def benchmark_names(names: str) -> list[str]:
    """`aime,amc23` -> ["aime", "amc23"], each known or a path; DataError otherwise."""
    listed = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not listed:
        raise DataError("no benchmark was given", "give one or several, for example aime,amc23")
    for name in listed:
        members(name)
    return listed


def _problems(member: Member, data: DataSection, fields: FieldsSection | None) -> list[Problem]:
    if isinstance(member, Generated):
        return member.made(data).problems(member.split)
    source = open_source(member, data, fields)
    problems = list(source.problems())
    if isinstance(member, DataSet) and member.count not in (None, len(problems)):
        raise DataError(
            f"{member.name} has {len(problems)} problems, but {member.count} are "
            f"expected ({source.origin})",
            "complete the copy, because an average without these problems is another number",
        )
    return problems


def _each_once(name: str, problems: list[Problem]) -> list[Problem]:
    once: dict[str, Problem] = {}
    for problem in problems:
        once.setdefault(problem.id, problem)
    if len(once) < len(problems):
        log.warning("%s: %d repeated rows left out", name, len(problems) - len(once))
    return list(once.values())


def two_golds(problems: Sequence[Problem]) -> tuple[Problem, Problem] | None:
    """Return two problems that ask one question and have different golds; None without any."""
    first: dict[str, Problem] = {}
    for problem in problems:
        earlier = first.setdefault(" ".join(problem.question.split()), problem)
        if earlier.gold != problem.gold:
            return earlier, problem
    return None


def check_one_gold(name: str, problems: Sequence[Problem]) -> None:
    """Raise DataError where a question stands there twice with different golds."""
    if pair := two_golds(problems):
        first, second = pair
        raise DataError(
            f"{name} has a question with two reference answers: {first.id} has "
            f"{first.gold}, and {second.id} has {second.gold}",
            "remove the wrong one, or measure on your own file",
        )


def load_training_problems(data: DataSection) -> list[Problem]:
    """Return the problems of `data.rl`: the first `limit` that it keeps, each problem once.

    Of a generator that holds problems out, such as `arithmetic`, they are the training split's.
    Raises DataError for rows that can't be used, ConfigurationError when nothing is left.
    """
    source = data.rl
    problems = load_problems(trained_on(source.name), data, source.fields, split=source.split)
    if pair := two_golds(problems):
        first, second = pair
        log.warning(
            "%s has a question with two reference answers, one of which rewards a wrong answer: "
            "%s says %s, %s says %s",
            source.name,
            first.id,
            first.gold,
            second.id,
            second.gold,
        )
    chosen = [p for p in problems if not source.numeric_only or is_plain_number(p.golds[0])][
        : source.limit
    ]
    if not chosen:
        raise ConfigurationError(
            f"no problem of {source.name} has a numeric reference answer, and "
            "data.rl.numeric_only is true",
            "use --set data.rl.numeric_only=false, or choose another data set",
        )
    return chosen


def is_here(name: str, data: DataSection, split: str | None = None) -> bool:
    """Return True if the rows of a source can be read without the Hub."""
    sources = members(name, split)
    return all(not isinstance(source, DataSet) or local_files(source, data) for source in sources)
