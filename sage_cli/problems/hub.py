"""Rows of a Hugging Face Hub data set, with the commit that was read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from sage_cli.errors import DataError
from sage_cli.problems.data_set import DataSet
from sage_cli.problems.files import Row

_COMMIT = re.compile(r"@([0-9a-f]{40})/")
_SHA = re.compile("[0-9a-f]{40}")
_TIMEOUT_S = 10.0


def read_hub(data_set: DataSet) -> tuple[str, Iterator[Row]]:
    """The commit of `data_set` that was read (`unknown` when a cache doesn't tell), and its rows.

    Raises DataError when neither the Hub nor its local cache has it.
    """
    import datasets

    try:
        revision = _resolve(data_set)
        splits = [
            datasets.load_dataset(data_set.hub, data_set.config, split=split, revision=revision)
            for split in data_set.splits
        ]
    except Exception as error:  # the Hub's clients fail in a dozen unrelated classes
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"{data_set.hub} couldn't be read from the Hub: {reason}") from error
    rows = (
        (f"{data_set.hub}, {name}, row {number}", dict(row))
        for name, split in zip(data_set.splits, splits, strict=True)
        for number, row in enumerate(split, 1)
    )
    return revision or _cached_commit(splits[0]), rows


def known_commit(data_set: DataSet) -> str | None:
    """The commit that will be read, as far as it can be told without the network.

    The pinned one; else the one that the Hub's local cache holds, the newest of several; else
    None. What is pinned to a tag or branch counts as not pinned.
    """
    from huggingface_hub import constants

    if data_set.revision is not None and _SHA.fullmatch(data_set.revision):
        return data_set.revision
    folder = Path(constants.HF_HUB_CACHE) / ("datasets--" + data_set.hub.replace("/", "--"))
    cached = [path for path in folder.glob("snapshots/*") if _SHA.fullmatch(path.name)]
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
