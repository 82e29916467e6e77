"""Rows of a registered data set, from the local copy where there is one, else from the Hub."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from sage_cli.config.data import DataSection
from sage_cli.errors import DataError
from sage_cli.problems.files import Row, content_hash, read_file
from sage_cli.problems.hub import read_hub
from sage_cli.problems.registry import DataSet

ROOT_VARIABLE = "SAGE_DATA"


@dataclass(frozen=True)
class Source:
    """Rows and where they came from: file names with content hashes, or Hub id and commit."""

    origin: str
    rows: Iterator[Row]


def open_source(data_set: DataSet, data: DataSection) -> Source:
    """The rows of `data_set`.

    Raises DataError that says which file to put where when there is neither a local copy nor
    a Hub that answers.
    """
    files = local_files(data_set, data)
    if files:
        return Source(files_origin(files), chain.from_iterable(map(read_file, files)))
    try:
        commit, rows = read_hub(data_set)
    except DataError as error:
        root = data_root(data)
        folder = str(root) if root else f"the folder that data.root or {ROOT_VARIABLE} names"
        raise DataError(
            f"no local copy of {data_set.name}, and {error.cause}",
            f"put {' and '.join(data_set.files)} into {folder}",
        ) from error
    return Source(f"{data_set.hub}@{commit}", rows)


def local_files(data_set: DataSet, data: DataSection) -> list[Path]:
    """The local copy of `data_set`, as JSONL or Parquet; empty unless every file is there."""
    root = data_root(data)
    if root is None:
        return []
    if not root.is_dir():
        raise DataError(
            f"the data folder {root} isn't there",
            f"correct data.root or {ROOT_VARIABLE}, or leave both out to read from the Hub",
        )
    found = [_either_kind(root / name) for name in data_set.files]
    return [path for path in found if path] if all(found) else []


def data_root(data: DataSection) -> Path | None:
    """`data.root`, or what SAGE_DATA names, or None."""
    if data.root is not None:
        return data.root
    named = os.environ.get(ROOT_VARIABLE)
    return Path(named) if named else None


def files_origin(files: list[Path]) -> str:
    """File names with their content hashes: the same wherever the folder lies."""
    return ", ".join(f"{path.name} sha256:{content_hash(path)}" for path in files)


def _either_kind(path: Path) -> Path | None:
    kinds = (path, path.with_suffix(".parquet"))
    return next((kind for kind in kinds if kind.is_file()), None)
