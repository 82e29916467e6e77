"""Sample sets from an archive, checked before they are put among the stored ones.

A file with the right checksum may still be built to harm: indices that stand for gigabytes, texts
that are not UTF-8, samples that contradict stored ones. All that would fail a later reader is found
here, before anything is put in place.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from sage_cli.errors import StoreError
from sage_cli.store.archives.listing import FLOOR_BYTES, RATIO, SAMPLES, shown
from sage_cli.store.arrow_tables import as_numpy, read_sealed
from sage_cli.store.atomic import storing, write_json
from sage_cli.store.json_files import read_object
from sage_cli.store.samples.annotations import SCHEMAS
from sage_cli.store.samples.parts import SCHEMA, list_parts, read_part
from sage_cli.store.samples.sample_set import (
    DESCRIPTION,
    ENGINES,
    SampleIdentity,
    SampleSet,
    engines_of,
)

_ANNOTATIONS = {f".{kind}": schema for kind, schema in SCHEMAS.items()}
_MOST_ROWS, _MOST_PLACES = 1_000_000, 10_000_000
"""Bounds on a part's rows, and on the sum of the problems' largest indices in a set."""
_MALFORMED = (pa.ArrowException, ValueError, TypeError, KeyError, IndexError, OSError, MemoryError)
"""Errors that reading a built file may raise."""
_NEXT = "ask whoever made the archive for another one"


def check_sets(received: Path, root: Path) -> dict[str, str]:
    """Check every set below `received`, alone and together with the stored one of its key.

    Returns the model of each key. Unreadable grades and scores are deleted: they are computed
    again. Raises StoreError for a set that does not match its name, cannot be read, or has other
    texts than the stored one below `root`.
    """
    models = {}
    for folder in sorted((received / SAMPLES).glob("*")):
        identity = _identity(folder)
        places = 0
        for part in list_parts(folder):
            places += _checked_part(folder / part.name)
            if places > _MOST_PLACES:
                raise _refused(folder, "its samples are numbered far beyond what it holds")
        _refuse_contradictions(received, root, identity)
        for file in sorted(folder.glob("*/*/*")):
            if file.suffix in _ANNOTATIONS and not _is_sound(file):
                file.unlink()
        models[folder.name] = identity.model
    return models


def put_set(received: Path, folder: Path) -> None:
    """Move a checked set to `folder`, parts last, so that a set is described before it is read.

    A stored set gets the parts that it lacks and their engines. An archive's grades and scores
    never replace those that were computed here.
    """
    stored, engines = folder.is_dir(), engines_of(folder)
    files = [path for path in received.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: path.suffix == ".parquet"):
        to = folder / path.relative_to(received)
        if os.path.lexists(to) or (stored and path.suffix != ".parquet"):
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        path.rename(to)
        more = [engine for engine in engines_of(received) if engine not in engines]
        if stored and more:
            engines += more
            write_json(folder / ENGINES, engines)


def _identity(folder: Path) -> SampleIdentity:
    """Return the identity in `set.json`, which must give the folder's name."""
    described = read_object(folder / DESCRIPTION, _NEXT)
    known = {"model": str, "template": str, "sampling": Mapping, "seed": int}
    if described.keys() != known.keys() or not all(
        isinstance(described[key], kind) for key, kind in known.items()
    ):
        raise _refused(folder, f"its {DESCRIPTION} describes no sample set")
    identity = SampleIdentity(**described)
    if identity.key != folder.name:
        raise _refused(folder, f"its {DESCRIPTION} describes another set")
    return identity


def _checked_part(file: Path) -> int:
    """Check a part; return the sum over its problems of the largest index plus one."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            rows, groups = opened.metadata.num_rows, range(opened.metadata.num_row_groups)
            size = sum(opened.metadata.row_group(group).total_byte_size for group in groups)
        if rows > _MOST_ROWS or size > max(FLOOR_BYTES, RATIO * file.stat().st_size):
            raise ValueError(f"{rows:,} samples of {size:,} bytes")
        table = read_part(file)
        table.validate(full=True)
        if not table.schema.equals(SCHEMA):
            raise ValueError("other columns than samples have")
        required = [table[name] for name in SCHEMA.names[:-1]]
        required += [table[name].cast(pa.string()) for name in ("problem_id", "finish_reason")]
        if any(column.null_count for column in required):
            raise ValueError("samples with missing values")
        index_S = as_numpy(table["index"])
        if len(index_S) and index_S.min() < 0:
            raise ValueError("negative indices")
        problems = table["problem_id"].combine_chunks()
        highest_P = np.full(len(problems.dictionary), -1, dtype=np.int64)
        np.maximum.at(highest_P, as_numpy(problems.indices), index_S)
    except (*_MALFORMED, StoreError) as error:
        raise _refused(file, f"it is no part of a sample set ({shown(error)})") from None
    return int((highest_P + 1).sum())


def _refuse_contradictions(received: Path, root: Path, identity: SampleIdentity) -> None:
    """Read both sets as one, from links to their parts, which fails for different texts."""
    stored, incoming = (SampleSet(at, identity, read_only=True) for at in (root, received))
    stored.inventory()  # an error here is about the stored set alone
    both = SampleSet(received / f".both.{secrets.token_hex(4)}", identity, read_only=True)
    try:
        with storing(both.folder):
            both.folder.mkdir(parents=True)
            for samples in (incoming, stored):
                for part in list_parts(samples.folder):
                    link = both.folder / part.name
                    if not link.is_symlink():
                        link.symlink_to((samples.folder / part.name).resolve())
        both.inventory()
    except StoreError as error:
        cause = error.cause.replace(str(both.folder), f"with the archive's samples {stored.folder}")
        raise StoreError(cause, "restore into another folder with --runs") from None
    finally:
        shutil.rmtree(both.root)


def _is_sound(file: Path) -> bool:
    """Return True if a file of grades or scores can be read from end to end."""
    try:
        table = read_sealed(file, _ANNOTATIONS[file.suffix])
        if table is None:
            return False
        table.validate(full=True)
        texts = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
        required = [table["index"], *(table[name].cast(pa.string()) for name in texts)]
        return not any(column.null_count for column in required)
    except _MALFORMED:
        return False


def _refused(path: Path, why: str) -> StoreError:
    name = f"{path.parent.name}/{path.name}"
    return StoreError(f"{name} of the archive can't be used: {why}", _NEXT)
