"""Rows of a file or a data set, their columns, and where they came from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError
from sage_cli.problems.data_set import DataSet
from sage_cli.problems.hub import known_commit, read_hub
from sage_cli.problems.layout import Layout
from sage_cli.problems.problem import Problem, problem_id
from sage_cli.problems.registry import file_and_part
from sage_cli.problems.row_files import FileRow, content, read_file
from sage_cli.settings.data import DataSection, FieldsSection

_ROOT_VARIABLE = "SAGE_DATA"
_DIGITS = 12
"""Hexadecimal digits by which an origin names a file's content."""
HELD_OUT = 10
"""A file's part `:dev` has about one in so many of its questions."""


@dataclass(frozen=True)
class Source:
    """Rows, what their columns hold, and where they came from: files with hashes, or a Hub commit."""  # noqa: E501

    layout: Layout
    origin: str
    rows: Iterator[FileRow]

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for every row. Raises DataError that names the row which isn't one."""
        return (self.layout.problem(row, self.origin) for row in self.rows)

    def worked(self) -> Iterator[tuple[Problem, str | None]]:
        """Yield every row's problem and working-out, None where no column of them is named."""
        return (
            (self.layout.problem(row, self.origin), self.layout.working_out(row))
            for row in self.rows
        )


def is_of_part(question: str, part: str) -> bool:
    """Return True if a file's part has the question, whatever row it is in."""
    held_out = int(problem_id("", question, ""), 16) % HELD_OUT == 0
    return not part or held_out == (part == "dev")


def open_source(
    source: Path | DataSet, data: DataSection, fields: FieldsSection | None = None
) -> Source:
    """Return the rows of a file, whose columns `fields` names, or of a data set.

    Raises DataError that says which file to put where when there is neither a local copy nor
    a Hub that answers.
    """
    if isinstance(source, Path):
        path, part, layout = _file(source, fields)
        rows = read_file(path)
        if not part:
            return Source(layout, _origin([path]), rows)
        chosen = (row for row in rows if is_of_part(layout.problem(row, "").question, part))
        return Source(layout, f"{_origin([path])}:{part}", chosen)
    origin, rows = _rows(source.pinned(data.revisions), data)
    if source.rows is not None:
        first, last = source.rows
        rows = islice(rows, first - 1, last)
    layout = Layout.of_data_set(source, fields)
    chosen = (row for row in rows if _is_chosen(row, source))
    if source.question:
        return Source(layout, origin, chosen)
    read = list(chosen)
    return Source(layout.found_in(read, source.name), origin, iter(read))


def source_identity(
    source: Path | DataSet, data: DataSection, fields: FieldsSection | None = None
) -> dict[str, Any]:
    """Return the determinants of the rows, as plain JSON.

    The content of files and where their rows have questions and golds, or the Hub's id and commit;
    `commit` is None while nothing says which one will be read. Raises DataError as reading does.
    """
    if isinstance(source, Path):
        path, part, layout = _file(source, fields)
        whole = {"file": path.name, "content": content(path), "columns": layout.columns()}
        return whole | ({"part": part} if part else {})
    columns = Layout.of_data_set(source, fields).columns()
    where = None if source.where is None else list(source.where)
    declared = {"data_set": source.name, "columns": columns, "where": where}
    if source.rows is not None:
        declared["rows"] = list(source.rows)
    files = local_files(source, data)
    if files:
        return {**declared, "content": [content(path) for path in files]}
    hub = {"hub": source.hub, "config": source.config, "splits": list(source.splits)}
    return {**declared, **hub, "commit": known_commit(source.pinned(data.revisions))}


def local_files(data_set: DataSet, data: DataSection) -> list[Path]:
    """The local copy of `data_set`, as JSONL or Parquet; empty unless every file is there."""
    root = data_root(data)
    if root is None:
        return []
    if not root.is_dir():
        raise DataError(
            f"the data folder {root} does not exist",
            f"correct data.root or {_ROOT_VARIABLE}, or leave both out to read from the Hub",
        )
    copies = [_either_kind(root / name) for name in data_set.files]
    return [path for path in copies if path] if all(copies) else []


def data_root(data: DataSection) -> Path | None:
    """`data.root`, or what SAGE_DATA names, or None."""
    if data.root is not None:
        return data.root
    folder = os.environ.get(_ROOT_VARIABLE)
    return Path(folder) if folder else None


def _file(source: Path, fields: FieldsSection | None) -> tuple[Path, str, Layout]:
    """Return the file that is read for `source`, the part of it that is meant, and its columns."""
    name, part = file_and_part(str(source))
    path = Path(name)
    return path, part, _file_layout(path, fields or FieldsSection(), content(path))


@lru_cache(maxsize=64)
def _file_layout(path: Path, fields: FieldsSection, content: str) -> Layout:  # noqa: ARG001
    """Return the layout of a file's rows, found once for a content."""
    return Layout.of_file(path.name, fields).found_in(list(read_file(path)), str(path))


def _rows(data_set: DataSet, data: DataSection) -> tuple[str, Iterator[FileRow]]:
    files = local_files(data_set, data)
    if files:
        return _origin(files), chain.from_iterable(map(read_file, files))
    try:
        commit, rows = read_hub(data_set)
    except DataError as error:
        root = data_root(data)
        folder = str(root) if root else f"the folder that data.root or {_ROOT_VARIABLE} names"
        raise DataError(
            f"no local copy of {data_set.name}, and {error.cause}",
            f"put {' and '.join(data_set.files)} into {folder}"
            if data_set.files
            else "name it as ORG/NAME/CONFIGURATION:SPLIT; for a machine without a network `hf "
            f"download --repo-type dataset {data_set.hub}` fills the cache",
        ) from error
    return f"{data_set.hub}@{commit}", rows


def _origin(files: Sequence[Path]) -> str:
    """File names with their content hashes: the same wherever the folder lies."""
    return ", ".join(f"{path.name} sha256:{content(path)[:_DIGITS]}" for path in files)


def _is_chosen(row: FileRow, data_set: DataSet) -> bool:
    if data_set.where is None:
        return True
    (column, value), (where, values) = data_set.where, row
    if column not in values:
        raise DataError(f"{where} has no column '{column}', by which {data_set.name} is chosen")
    return bool(values[column] == value)


def _either_kind(path: Path) -> Path | None:
    kinds = (path, path.with_suffix(".parquet"))
    return next((kind for kind in kinds if kind.is_file()), None)
