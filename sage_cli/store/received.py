"""Sample sets that somebody else drew, checked before they stand among one's own.

A file that holds what it claims may still be built to harm: numbers that stand for gigabytes, texts
that aren't text, samples that contradict stored ones. Whatever a later reading would stumble over
is found here, while nothing is put in place.
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
from sage_cli.store.annotations import PLACE
from sage_cli.store.archive_list import FLOOR_BYTES, RATIO, SAMPLES, shown
from sage_cli.store.atomic import storing, write_json
from sage_cli.store.columns import as_numpy
from sage_cli.store.json_object import read_object
from sage_cli.store.parts import SCHEMA, list_parts, read_part
from sage_cli.store.readings import COLUMNS as OF_READINGS
from sage_cli.store.samples import (
    DESCRIPTION,
    ENGINES,
    SampleIdentity,
    SampleSet,
    engines_of,
)
from sage_cli.store.sealed import read_sealed
from sage_cli.store.verdicts import COLUMNS as OF_VERDICTS

_ANNOTATIONS = {
    ".verdicts": pa.schema([*PLACE, *OF_VERDICTS]),
    ".readings": pa.schema([*PLACE, *OF_READINGS]),
}
_MOST_ROWS, _MOST_PLACES = 1_000_000, 10_000_000
"""Rows of a part, and numbers that a set counts up to, over all of its problems."""
_ODD = (pa.ArrowException, ValueError, TypeError, KeyError, IndexError, OSError, MemoryError)
"""What reading a built file may raise."""
_NEXT = "ask whoever made the archive for another one"


def check_sets(received: Path, root: Path) -> dict[str, str]:
    """Check every set below `received` alone and beside the one of its key below `root`.

    Returns each key with the model that drew the set. Verdicts and readings that can't be read are
    deleted: they are found anew. Raises StoreError for a set that isn't what its name says, can't
    be read, or has other texts than the stored one.
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


def put_set(received: Path, place: Path) -> None:
    """Move a checked set to `place`; parts come last, so that a set is described before it is read.

    A set that is there gets the parts that it lacks and their engines: what an archive says about
    samples never takes the place of what was found here.
    """
    there, engines = place.is_dir(), engines_of(place)
    files = [path for path in received.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: path.suffix == ".parquet"):
        to = place / path.relative_to(received)
        if os.path.lexists(to) or (there and path.suffix != ".parquet"):
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        path.rename(to)
        further = [one for one in engines_of(received) if one not in engines]
        if there and further:
            engines += further
            write_json(place / ENGINES, engines)


def _identity(folder: Path) -> SampleIdentity:
    """What `set.json` says, which is also what the folder's name says."""
    said = read_object(folder / DESCRIPTION, _NEXT)
    known = {"model": str, "template": str, "sampling": Mapping, "seed": int}
    if said.keys() != known.keys() or not all(
        isinstance(said[key], kind) for key, kind in known.items()
    ):
        raise _refused(folder, f"its {DESCRIPTION} describes no sample set")
    identity = SampleIdentity(**said)
    if identity.key != folder.name:
        raise _refused(folder, f"its {DESCRIPTION} describes another set")
    return identity


def _checked_part(file: Path) -> int:
    """How many places the part's samples take: for each problem its highest index, and one."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            rows, groups = opened.metadata.num_rows, range(opened.metadata.num_row_groups)
            size = sum(opened.metadata.row_group(group).total_byte_size for group in groups)
        if rows > _MOST_ROWS or size > max(FLOOR_BYTES, RATIO * file.stat().st_size):
            raise ValueError(f"{rows:,} samples of {size:,} bytes")
        table = read_part(file)
        table.validate(full=True)
        columns = [name for name in SCHEMA.names if name in table.column_names]
        expected = pa.schema([SCHEMA.field(name) for name in columns])
        if not table.schema.equals(expected) or len(columns) < len(SCHEMA) - 1:
            raise ValueError("other columns than samples have")
        plain = [table[name] for name in SCHEMA.names[:-1]]
        plain += [table[name].cast(pa.string()) for name in ("problem_id", "finish_reason")]
        if any(column.null_count for column in plain):
            raise ValueError("samples that lack something")
        index_S = as_numpy(table["index"])
        if len(index_S) and index_S.min() < 0:
            raise ValueError("negative indices")
        problems = table["problem_id"].combine_chunks()
        highest_P = np.full(len(problems.dictionary), -1, dtype=np.int64)
        np.maximum.at(highest_P, as_numpy(problems.indices), index_S)
    except (*_ODD, StoreError) as error:
        raise _refused(file, f"it is no part of a sample set ({shown(error)})") from None
    return int((highest_P + 1).sum())


def _refuse_contradictions(received: Path, root: Path, identity: SampleIdentity) -> None:
    """Read the received set and the stored one as one, from links to the parts of both."""
    stored, incoming = (SampleSet(at, identity, read_only=True) for at in (root, received))
    stored.inventory()  # says what is wrong with it by itself
    both = SampleSet(received / f".both.{secrets.token_hex(4)}", identity, read_only=True)
    try:
        with storing(both.folder):
            both.folder.mkdir(parents=True)
            for one in (incoming, stored):
                for part in list_parts(one.folder):
                    link = both.folder / part.name
                    if not link.is_symlink():
                        link.symlink_to((one.folder / part.name).resolve())
        both.inventory()
    except StoreError as error:
        cause = error.cause.replace(str(both.folder), f"with the archive's samples {stored.folder}")
        raise StoreError(cause, "restore into another folder with --runs") from None
    finally:
        shutil.rmtree(both.root)


def _is_sound(file: Path) -> bool:
    """Whether a file of verdicts or readings can be read from end to end."""
    try:
        table = read_sealed(file, _ANNOTATIONS[file.suffix])
        if table is None:
            return False
        table.validate(full=True)
        texts = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
        needed = [table["index"], *(table[name].cast(pa.string()) for name in texts)]
        return not any(column.null_count for column in needed)
    except _ODD:
        return False


def _refused(place: Path, why: str) -> StoreError:
    name = f"{place.parent.name}/{place.name}"
    return StoreError(f"{name} of the archive can't be used: {why}", _NEXT)
