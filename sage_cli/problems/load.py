"""Problems by name or by path: registered data sets, files with named columns, generators."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

from sage_cli.config.data import DataSection, FieldsSection
from sage_cli.errors import DataError
from sage_cli.problems.files import SUFFIXES, Row, read_file
from sage_cli.problems.generated.registry import GENERATORS
from sage_cli.problems.generated.word_problems.splits import word_problems
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import DataSet, Derived, Generated, Group, find
from sage_cli.problems.rows import Layout
from sage_cli.problems.sources import files_origin, open_source

log = logging.getLogger(__name__)


def load_benchmark(
    names: str, data: DataSection, fields: FieldsSection | None = None, limit: int | None = None
) -> list[Problem]:
    """The problems of one benchmark, of several (`aime,amc23`) or of a file (`mine.jsonl`).

    `fields` names a file's columns; `limit` keeps the first problems of each benchmark. A row that
    repeats question and gold of an earlier one is left out, with a warning.
    Raises DataError for an unknown name, a file or column that isn't there, a problem without
    question or gold (named by its line), and an incomplete copy.
    """
    return [
        problem
        for name in benchmark_names(names)
        for problem in _each_once(name, read_problems(name, data, fields))[:limit]
    ]


def read_problems(
    name: str, data: DataSection, fields: FieldsSection | None = None
) -> list[Problem]:
    """One problem for every row of one benchmark or file, repetitions included."""
    problems = list(chain.from_iterable(_part(part, data, fields) for part in _parts(name)))
    if not problems:
        raise DataError(f"{name} holds no problems", "check the file")
    benchmark = Path(name).name if is_file_name(name) else name
    return [replace(problem, benchmark=benchmark) for problem in problems]


def worked_rows(
    name: str, data: DataSection, fields: FieldsSection
) -> Iterator[tuple[Problem, str]]:
    """Each row of a source with worked solutions: the problem and its working-out."""
    for part in _parts(name):
        if isinstance(part, Generated | Derived):
            raise DataError(
                f"{name} has no worked solutions to learn from", "name arithmetic, or a data set"
            )
        layout, origin, rows = _open(part, data, fields)
        for row in rows:
            yield layout.problem(row, name, origin), layout.working_out(row)


def benchmark_names(names: str) -> list[str]:
    """`aime,amc23` -> ["aime", "amc23"], each known or a path; DataError otherwise."""
    listed = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not listed:
        raise DataError("no benchmark is named", "name one, as aime, or several, as aime,amc23")
    for name in listed:
        _parts(name)
    return listed


def is_file_name(name: str) -> bool:
    """Whether `name` is the path of a file rather than a registered name."""
    return name.endswith(SUFFIXES)


Part = Path | DataSet | Generated | Derived


def _parts(name: str) -> list[Part]:
    if is_file_name(name):
        return [Path(name)]
    entry = find(name)
    if isinstance(entry, Group):
        return [part for member in entry.members for part in _parts(member)]
    return [entry]


def _part(part: Part, data: DataSection, fields: FieldsSection | None) -> list[Problem]:
    if isinstance(part, Generated):
        return GENERATORS[part.name](data)
    if isinstance(part, Derived):
        return word_problems(part.name, data)
    layout, origin, rows = _open(part, data, fields or FieldsSection())
    problems = [layout.problem(row, layout.source, origin) for row in rows]
    if isinstance(part, DataSet) and part.count not in (None, len(problems)):
        raise DataError(
            f"{part.name} has {len(problems)} problems where {part.count} are expected ({origin})",
            "complete the copy: an average over missing problems means nothing",
        )
    return problems


def _open(
    part: Path | DataSet, data: DataSection, fields: FieldsSection
) -> tuple[Layout, str, Iterator[Row]]:
    if isinstance(part, Path):
        rows = read_file(part)
        return Layout.of_file(part.name, fields), files_origin([part]), rows
    source = open_source(part, data)
    wanted = (row for row in source.rows if _wanted(row, part))
    return Layout.of_data_set(part), source.origin, wanted


def _wanted(row: Row, data_set: DataSet) -> bool:
    if data_set.where is None:
        return True
    (column, value), (place, values) = data_set.where, row
    if column not in values:
        raise DataError(f"{place} has no column '{column}', by which {data_set.name} is chosen")
    return bool(values[column] == value)


def _each_once(name: str, problems: list[Problem]) -> list[Problem]:
    once: dict[str, Problem] = {}
    for problem in problems:
        once.setdefault(problem.id, problem)
    if len(once) < len(problems):
        log.warning("%s: %d repeated rows left out", name, len(problems) - len(once))
    return list(once.values())
