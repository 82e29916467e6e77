"""Rows of a data set of the Hub, and the commit that they are of."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sage_cli.errors import DataError
from sage_cli.problems.data_set import DataSet
from sage_cli.problems.row_files import FileRow

log = logging.getLogger(__name__)

_COMMIT = re.compile(r"@([0-9a-f]{40})/")
_SHA = re.compile("[0-9a-f]{40}")
_TIMEOUT_S = 10.0


def read_hub(data_set: DataSet) -> tuple[str, Iterator[FileRow]]:
    """The commit of `data_set` that was read (`unknown` when a cache doesn't tell), and its rows.

    Raises DataError when neither the Hub nor its local cache has it.
    """
    import datasets

    failures: list[Exception] = []
    for source in (data_set.hub, *_snapshot(data_set)):
        try:
            revision = None if failures else _resolve(data_set)
            load = partial(datasets.load_dataset, source, data_set.config, revision=revision)
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
        log.warning("%s is read from the Hub's cache, %s", data_set.hub, source)
        revision = Path(source).name
    rows = (
        (f"{data_set.hub}, {name}, row {number}", dict(row))
        for name, split in splits.items()
        for number, row in enumerate(split, 1)
    )
    return revision or _cached_commit(next(iter(splits.values()))), rows


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


def _snapshot(data_set: DataSet) -> list[str]:
    """Return the folder that the Hub's local cache has of a data set, if any."""
    folder = _cache_of(data_set) / "snapshots" / str(known_commit(data_set))
    return [str(folder)] if folder.is_dir() else []


def _cache_of(data_set: DataSet) -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / ("datasets--" + data_set.hub.replace("/", "--"))


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
