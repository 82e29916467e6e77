"""The pairs of methods that were compared, with the runs of each comparison."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sage_cli.errors import SageError
from sage_cli.store.json_files import read_object, write_object

_FILE = "comparisons.json"
"""Below a folder of runs. Cosmetic: without it nothing but a note is lost."""
REMEDY = "delete it: it only counts earlier comparisons"


def note_comparison(root: Path, pair: str, runs: Sequence[str]) -> int:
    """Note that `runs` of a `pair` of methods were compared; return how many other sets were.

    A store that can't be read or written does not prevent a comparison. Two commands at once may
    lose one's note.
    """
    file, names = root / "reports" / _FILE, sorted(runs)
    known: dict[str, list[list[str]]] = {}
    with suppress(OSError, SageError):
        known = read_object(file, REMEDY)
    before = [earlier for earlier in known.get(pair, []) if earlier != names]
    if len(before) == len(known.get(pair, [])):
        with suppress(OSError, SageError):
            file.parent.mkdir(parents=True, exist_ok=True)
            write_object(file, {**known, pair: [*before, names]})
    return len(before)
