"""Rows of a file or data set, from a local copy where there is one, else from the Hub."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from sage_cli.errors import DataError
from sage_cli.problems.problem import Problem
from sage_cli.problems.rows import (
    DataSet,
    Layout,
    Row,
    content,
    file_and_part,
    is_of_part,
    read_file,
)
from sage_cli.settings.sections.data import DataSection, FieldsSection

log = logging.getLogger(__name__)
_COMMIT = re.compile(r"@([0-9a-f]{40})/")
_SHA = re.compile("[0-9a-f]{40}")
_TIMEOUT_S = 10.0


def read_hub(data_set: DataSet) -> tuple[str, Iterator[Row]]:
    """The commit of `data_set` that was read (`unknown` when a cache doesn't tell), and its rows.

    Raises DataError when neither the Hub nor its local cache has it.
    """
    import datasets

    failures: list[Exception] = []
    for place in (data_set.hub, *_snapshot(data_set)):
        try:
            revision = None if failures else _resolve(data_set)
            load = partial(datasets.load_dataset, place, data_set.config, revision=revision)
            splits = {name: load(split=name) for name in data_set.splits} or dict(load())
            break
        except Exception as error:  # the Hub's clients fail in a dozen unrelated classes
            failures.append(error)
    else:
        reason = (str(failures[0]).splitlines() or [type(failures[0]).__name__])[0]
        refused = DataError(f"{data_set.hub} couldn't be read from the Hub: {reason}")
        raise refused from failures[0]
    if len(splits) > max(1, len(data_set.splits)):
        raise DataError(f"{data_set.hub} has the splits {', '.join(splits)}")
    if failures:
        log.warning("%s is read from the Hub's cache, %s", data_set.hub, place)
        revision = Path(place).name
    rows = (
        (f"{data_set.hub}, {name}, row {number}", dict(row))
        for name, split in splits.items()
        for number, row in enumerate(split, 1)
    )
    return revision or _cached_commit(next(iter(splits.values()))), rows


def _snapshot(data_set: DataSet) -> list[str]:
    """Return the folder that the Hub's local cache has of a data set, if any."""
    folder = _cache_of(data_set) / "snapshots" / str(known_commit(data_set))
    return [str(folder)] if folder.is_dir() else []


def _cache_of(data_set: DataSet) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / ("datasets--" + data_set.hub.replace("/", "--"))


def known_commit(data_set: DataSet) -> str | None:
    """Return the commit that will be read, as far as it can be told without the network.

    The pinned one; else the one that the Hub's local cache holds, the newest of several; else
    None. What is pinned to a tag or branch counts as not pinned.
    """
    if data_set.revision is not None and _SHA.fullmatch(data_set.revision):
        return data_set.revision
    snapshots = _cache_of(data_set).glob("snapshots/*")
    cached = [path for path in snapshots if _SHA.fullmatch(path.name)]
    return max(cached, key=lambda path: path.stat().st_mtime_ns).name if cached else None


def _resolve(data_set: DataSet) -> str | None:
    """The commit to read. Asking first fails at once where loading would retry for half a minute.

    With HF_HUB_OFFLINE set the cache decides.
    """
    from huggingface_hub import HfApi, constants

    if constants.HF_HUB_OFFLINE:
        return data_set.revision
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    info = HfApi().dataset_info(data_set.hub, revision=data_set.revision, timeout=_TIMEOUT_S)
    return info.sha


def _cached_commit(split: object) -> str:
    checksums = getattr(getattr(split, "info", None), "download_checksums", None) or {}
    commit = _COMMIT.search(" ".join(checksums))
    return commit[1] if commit else "unknown"


ROOT_VARIABLE = "SAGE_DATA"
_DIGITS = 12
"""Hexadecimal digits by which an origin names a file's content."""


@dataclass(frozen=True)
class Source:
    """Rows, what their columns hold, and where they came from: files with hashes, or a Hub commit."""  # noqa: E501

    layout: Layout
    origin: str
    rows: Iterator[Row]

    def problems(self) -> Iterator[Problem]:
        """Yield a problem for every row. Raises DataError that names the row which isn't one."""
        return (self.layout.problem(row, self.origin) for row in self.rows)

    def worked(self) -> Iterator[tuple[Problem, str | None]]:
        """Yield every row's problem and working-out, None where no column of them is named."""
        return (
            (self.layout.problem(row, self.origin), self.layout.working_out(row))
            for row in self.rows
        )


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


def _file(source: Path, fields: FieldsSection | None) -> tuple[Path, str, Layout]:
    """Return the file that is read for `source`, the part of it that is meant, and its columns."""
    name, part = file_and_part(str(source))
    path = Path(name)
    return path, part, _file_layout(path, fields or FieldsSection(), content(path))


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


@lru_cache(maxsize=64)
def _file_layout(path: Path, fields: FieldsSection, content: str) -> Layout:  # noqa: ARG001
    """Return the layout of a file's rows, found once for a content."""
    return Layout.of_file(path.name, fields).found_in(list(read_file(path)), str(path))


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
    copies = [_either_kind(root / name) for name in data_set.files]
    return [path for path in copies if path] if all(copies) else []


def data_root(data: DataSection) -> Path | None:
    """`data.root`, or what SAGE_DATA names, or None."""
    if data.root is not None:
        return data.root
    folder = os.environ.get(ROOT_VARIABLE)
    return Path(folder) if folder else None


def _rows(data_set: DataSet, data: DataSection) -> tuple[str, Iterator[Row]]:
    files = local_files(data_set, data)
    if files:
        return _origin(files), chain.from_iterable(map(read_file, files))
    try:
        commit, rows = read_hub(data_set)
    except DataError as error:
        root = data_root(data)
        folder = str(root) if root else f"the folder that data.root or {ROOT_VARIABLE} names"
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


def _is_chosen(row: Row, data_set: DataSet) -> bool:
    if data_set.where is None:
        return True
    (column, value), (where, values) = data_set.where, row
    if column not in values:
        raise DataError(f"{where} has no column '{column}', by which {data_set.name} is chosen")
    return bool(values[column] == value)


def _either_kind(path: Path) -> Path | None:
    kinds = (path, path.with_suffix(".parquet"))
    return next((kind for kind in kinds if kind.is_file()), None)
