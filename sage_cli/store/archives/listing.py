"""The list of an archive's files, which is checked before it is used: it may be anybody's.

All listed names are files in the folders of its runs and sample sets, of types that hold data.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import TypedDict

from sage_cli.errors import StoreError
from sage_cli.store.samples.index import FILE as INDEX
from sage_cli.store.samples.parts import NAME as PART
from sage_cli.store.samples.sample_set import DESCRIPTION

LIST, FORMAT = "archive.json", 2
LIST_BYTES, MOST_FILES, DEEPEST, LONGEST = 16 * 2**20, 100_000, 8, 240
"""Bounds on the list's bytes, its files, the parts of a name and its bytes."""
RATIO, FLOOR_BYTES = 200, 256 * 2**20
"""Bound on the files' size: this many times that of the archive, or the floor if that is more."""
RUNS, SAMPLES = "runs", "samples"
DATA = frozenset({".json", ".jsonl", ".jinja", ".txt", ".model", ".md", ".log"})
"""Suffixes of a run's files that results are read from: no weights, no checkpoints, no code."""
STEP_FOLDERS = frozenset({"ledger", "completions"})
"""A run's folders of Parquet files on the completions of its training."""
SAMPLE_DATA = frozenset({".json", ".parquet", ".grades", ".scores"})
LEFT_OUT = frozenset({"checkpoints", "wandb", "tensorboard", "claims", "tokens", INDEX})
"""Folders and files of a run or a sample set that are not archived."""
AGAIN = "make the archive again with `sage runs archive`"
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}")
_SET = re.compile(r"[0-9a-f]{16}")
_DESCRIPTION_BYTES = 2**20
"""Bound on files that are read whole before anything is put in place."""
_RESERVED = frozenset({"reports", RUNS, SAMPLES, "suites", "sweeps"})
"""Folders beside the runs that are not runs."""


class ListedFile(TypedDict):
    """A file of an archive: its size and the SHA-256 of its content."""

    bytes: Annotated[int, Field(ge=0, le=2**53)]
    sha256: str


@dataclass(frozen=True)
class Archive:
    """An archive: a run and its ancestors, and their sample sets."""

    runs: tuple[str, ...]
    sample_sets: tuple[str, ...]
    files: Mapping[str, ListedFile]
    digest: str


class _Format(BaseModel):
    format: int


class _Listing(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    format: int
    runs: tuple[str, ...]
    sample_sets: tuple[str, ...]
    files: dict[str, ListedFile]


def listed(text: bytes, file: object) -> Archive:
    """Return the archive that the list `text` of `file` describes.

    Raises StoreError for another format and for anything that `sage runs archive` does not write.
    """
    try:
        version = _Format.model_validate_json(text).format
        if version != FORMAT:
            raise StoreError(
                f"{file} has the format {version}, and this release reads {FORMAT}",
                "have the run archived again by this release, or use the one that wrote the file",
            )
        listing = _Listing.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise not_as_made(file, f"its {LIST} can't be read ({shown(first['msg'])})") from None
    digest = hashlib.sha256(text).hexdigest()
    archive = Archive(listing.runs, listing.sample_sets, listing.files, digest)
    if (why := foreign(archive)) is not None:
        raise not_as_made(file, why)
    return archive


def refuse_excess(archive: Archive, packed_bytes: int, file: object) -> None:
    """Raise StoreError if the files are too large for an archive of `packed_bytes`."""
    total = sum(entry["bytes"] for entry in archive.files.values())
    if total > max(FLOOR_BYTES, RATIO * packed_bytes):
        raise StoreError(
            f"{file} has {packed_bytes:,} bytes and lists files of {total:,}: more than "
            f"{RATIO} times as many",
            "do not unpack it: samples and records do not compress so well",
        )


def belongs(kind: str, inside: PurePosixPath) -> bool:
    """Return True if the file `inside` a folder of that kind, RUNS or SAMPLES, is archived."""
    ending, parts = inside.suffix, inside.parts
    if LEFT_OUT & set(parts) or any(part.startswith(".") for part in parts):
        return False
    if kind == RUNS:
        return ending in DATA or (ending == ".parquet" and parts[0] in STEP_FOLDERS)
    is_part = len(parts) > 1 or ending != ".parquet" or PART.fullmatch(inside.name) is not None
    return ending in SAMPLE_DATA and is_part


def shown(text: object) -> str:
    """Return untrusted text for a message: quoted, in ASCII, at most 100 characters."""
    return ascii(str(text)[:100])


def not_as_made(file: object, why: str) -> StoreError:
    """Return the error for an archive that `sage runs archive` did not write."""
    return StoreError(f"{file} was changed after it was made: {why}", AGAIN)


def foreign(archive: Archive) -> str | None:
    """Return the first error in the list; None if it has none."""
    runs, sets, files = archive.runs, archive.sample_sets, archive.files
    if not runs:
        return "it lists no run"
    for id_ in runs:
        if not _RUN.fullmatch(id_) or id_.lower() in _RESERVED:
            return f"it lists {shown(id_)}, which is no run's id"
    for key in sets:
        if not _SET.fullmatch(key):
            return f"it lists {shown(key)}, which is no sample set's key"
    if len(files) > MOST_FILES:
        return f"it lists {len(files):,} files, more than {MOST_FILES:,}"
    if twice := _twice([*runs, *sets]) or _twice(files):
        return f"it lists {shown(twice)} twice"
    known = {RUNS: runs, SAMPLES: sets}
    for name in files:
        if not _is_inside(name, known):
            return f"it lists {shown(name)}, which is part of no run or sample set"
    needed = [f"{RUNS}/{id_}/{name}" for id_ in runs for name in ("config.json", "manifest.json")]
    needed += [f"{SAMPLES}/{key}/{DESCRIPTION}" for key in sets]
    for name in needed:
        if name not in files:
            return f"it lists no {name}"
        if files[name]["bytes"] > _DESCRIPTION_BYTES:
            return f"{name} has {files[name]['bytes']:,} bytes, more than {_DESCRIPTION_BYTES:,}"
    return None


def _is_inside(name: str, known: Mapping[str, tuple[str, ...]]) -> bool:
    kind, *rest = name.split("/")
    short = len(rest) < DEEPEST and len(name.encode(errors="replace")) <= LONGEST
    if not short or len(rest) < 2 or rest[0] not in known.get(kind, ()):
        return False
    plain = all(part and part.isprintable() and "\\" not in part for part in rest)
    return plain and belongs(kind, PurePosixPath(*rest[1:]))


def _twice(names: Iterable[str]) -> str | None:
    """Return a name that is there twice, ignoring case as some file systems do; else None."""
    seen: set[str] = set()
    for name in names:
        folded = name.casefold()
        if folded in seen:
            return name
        seen.add(folded)
    return None
