"""Names of benchmarks and models in the names of files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

_DATA_ENDING = re.compile(r"\.(?:jsonl?|csv|parquet|eval)(?=[:,]|$)")
EIGHT_DIGITS = "[0-9a-f]" * 8
"""The pattern of the hexadecimal digits in names of sage: whatever else is there is the user's."""


def portable(name: str) -> str:
    """Return a name of a benchmark or a model as it stands in the names of files.

    Shells, `scp` and other systems read the signs of `arithmetic:held_out=60` as something else.
    A data file's ending is left out, and nothing else behind a dot.
    """
    return re.sub("[/:=]", "-", _DATA_ENDING.sub("", name))


def file_stems(names: Iterable[str]) -> dict[str, str]:
    """Return names -> what stands for them in reports' file names, with folders if need be."""
    names = list(names)
    stems = {name: _unspaced(PurePath(name).name) for name in names}
    distinct = len({*stems.values()}) == len(stems)
    return stems if distinct else {name: _unspaced(name) for name in names}


def _unspaced(name: str) -> str:
    return re.sub(",? ", "-", portable(name))
