"""Rows of a Hugging Face Hub data set, with the commit that was read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from sage_cli.errors import DataError
from sage_cli.problems.files import Row
from sage_cli.problems.registry import DataSet

_COMMIT = re.compile(r"@([0-9a-f]{40})/")
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
    found = _COMMIT.search(" ".join(checksums))
    return found[1] if found else "unknown"
