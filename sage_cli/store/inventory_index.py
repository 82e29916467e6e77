"""The index of a set's inventory, kept up with its parts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sage_cli.errors import StoreError
from sage_cli.store.inventory import INVENTORY_SCHEMA, Inventory
from sage_cli.store.sample_parts import DamagedPartError, PartFile, list_parts, read_part
from sage_cli.store.tables import read_sealed, write_sealed

INDEX_FILE = "index"


def load_index(folder: Path) -> Inventory:
    """Return the inventory in the index; an empty one if the file is absent or corrupt."""
    rows = read_sealed(folder / INDEX_FILE, INVENTORY_SCHEMA)
    if rows is None:
        return Inventory()
    parts = json.loads(rows.schema.metadata[b"parts"])
    return Inventory(tuple(PartFile(*part) for part in parts), rows)


def write_index(folder: Path, inventory: Inventory) -> None:
    """Write the index; if that fails, the parts are read again next time."""
    rows = inventory.rows.replace_schema_metadata({"parts": json.dumps(inventory.parts)})
    with suppress(OSError):
        write_sealed(folder / INDEX_FILE, rows)


def refreshed(folder: Path, earlier: Inventory) -> Inventory:
    """Return `earlier` if the folder has the same parts, else the inventory with new parts read.

    Raises StoreError if two parts hold different texts for one sample.
    """
    listed = list_parts(folder)
    if tuple(listed) == earlier.parts and not earlier.damaged:
        return earlier
    earlier_parts = set(earlier.parts)
    unread = [part for part in listed if part not in earlier_parts]
    with ThreadPoolExecutor() as readers:
        read = dict(zip(unread, readers.map(lambda part: _rows(folder, part), unread), strict=True))
    damaged = {part for part, rows in read.items() if rows is None}
    parts = [part for part in listed if part not in damaged]
    inventory = Inventory(
        tuple(parts), _merged(earlier, parts, read), tuple(part.name for part in sorted(damaged))
    )
    _check_same_texts(folder, inventory)
    return inventory


def _rows(folder: Path, part: PartFile) -> pa.Table | None:
    """Return a part's rows, without the number of the part; None if it is damaged."""
    try:
        table = read_part(folder / part.name, ["problem_id", "index", "tokens", "finish_reason"])
    except DamagedPartError:
        return None
    import pyarrow.compute as pc  # takes 0.15 s, and sets with an index do not need it

    truncated = pc.equal(table["finish_reason"].cast(pa.string()), "length")
    return table.drop_columns("finish_reason").append_column("truncated", truncated)


def _merged(
    earlier: Inventory, parts: Sequence[PartFile], read: dict[PartFile, pa.Table | None]
) -> pa.Table:
    """Return the rows of `parts` from `earlier` and the tables `read`, ordered by part."""
    number = {part: i for i, part in enumerate(parts)}
    renumbered = np.array([number.get(part, -1) for part in earlier.parts], dtype=np.int32)
    tables = [earlier.rows.drop_columns("part")]
    numbers = [renumbered[earlier.part_S] if len(earlier.parts) else earlier.part_S]
    for part, rows in read.items():
        if rows is not None:
            tables.append(rows)
            numbers.append(np.full(len(rows), number[part], dtype=np.int32))
    part_S = np.concatenate(numbers)
    # each part's dictionary has its own codes for problem ids; unifying gives all rows one
    rows = pa.concat_tables(tables).add_column(0, INVENTORY_SCHEMA.field("part"), pa.array(part_S))
    rows = rows.unify_dictionaries().combine_chunks()
    if (part_S < 0).any():
        rows = rows.filter(part_S >= 0)
        part_S = part_S[part_S >= 0]
    # `part_S` is ascending, which `_texts` relies on; appended parts usually are already
    if (np.diff(part_S) < 0).any():
        rows = rows.take(np.argsort(part_S, kind="stable"))
    return rows


def _check_same_texts(folder: Path, inventory: Inventory) -> None:
    """Raise StoreError if two rows of one sample have different texts."""
    repeats = np.flatnonzero(inventory.repeats_S)
    if not len(repeats):
        return
    firsts = inventory.locate(
        inventory.problem_ids, inventory.problem_S[repeats], inventory.index_S[repeats]
    )
    text = _texts(folder, inventory, np.union1d(firsts, repeats))
    for first, second in zip(firsts.tolist(), repeats.tolist(), strict=True):
        if text[first] != text[second]:
            problem = inventory.problem_ids[inventory.problem_S[first]]
            names = [inventory.parts[inventory.part_S[row]].name for row in (first, second)]
            raise StoreError(
                f"{folder} has different texts for sample {inventory.index_S[first]} of problem "
                f"{problem}: in {' and '.join(dict.fromkeys(names))}",
                "move one of the two elsewhere: samples that only it held are sampled again",
            )


def _texts(folder: Path, inventory: Inventory, rows: np.ndarray[Any, Any]) -> dict[int, str]:
    starts = np.searchsorted(inventory.part_S, np.arange(len(inventory.parts)))
    text_by_row: dict[int, str] = {}
    for part in np.unique(inventory.part_S[rows]).tolist():
        rows_of_part = rows[inventory.part_S[rows] == part]
        texts = read_part(folder / inventory.parts[part].name, ["text"])["text"]
        text_by_row |= zip(
            rows_of_part.tolist(), texts.take(rows_of_part - starts[part]).to_pylist(), strict=True
        )
    return text_by_row
