"""The index of a sample set: what its parts hold, in one file that can be made anew at any time."""

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
from sage_cli.store.inventory import SCHEMA, Inventory
from sage_cli.store.parts import DamagedPartError, PartFile, list_parts, read_part
from sage_cli.store.sealed import read_sealed, write_sealed

FILE = "index"


def load_index(folder: Path) -> Inventory:
    """What the index says; nothing where there is none or it is torn."""
    rows = read_sealed(folder / FILE, SCHEMA)
    if rows is None:
        return Inventory()
    parts = json.loads(rows.schema.metadata[b"parts"])
    return Inventory(tuple(PartFile(*part) for part in parts), rows)


def keep_index(folder: Path, inventory: Inventory) -> None:
    """Write the index; where that can't be done the parts are read again next time."""
    rows = inventory.rows.replace_schema_metadata({"parts": json.dumps(inventory.parts)})
    with suppress(OSError):
        write_sealed(folder / FILE, rows)


def brought_up_to_date(folder: Path, known: Inventory) -> Inventory:
    """`known` itself if the folder still has the same parts; otherwise new parts are read.

    Raises StoreError when two parts hold different texts for one sample.
    """
    listed = list_parts(folder)
    if tuple(listed) == known.parts and not known.damaged:
        return known
    already = set(known.parts)
    unread = [part for part in listed if part not in already]
    with ThreadPoolExecutor() as readers:
        read = dict(zip(unread, readers.map(lambda part: _rows(folder, part), unread), strict=True))
    damaged = {part for part, rows in read.items() if rows is None}
    parts = [part for part in listed if part not in damaged]
    inventory = Inventory(
        tuple(parts), _merged(known, parts, read), tuple(part.name for part in sorted(damaged))
    )
    _refuse_contradictions(folder, inventory)
    return inventory


def _rows(folder: Path, part: PartFile) -> pa.Table | None:
    """A part's rows, still without the number of the part; None if it is damaged."""
    try:
        table = read_part(folder / part.name, ["problem_id", "index", "tokens", "finish_reason"])
    except DamagedPartError:
        return None
    import pyarrow.compute as pc  # costs a seventh of a second, and stored sets don't need it

    cut_off = pc.equal(table["finish_reason"].cast(pa.string()), "length")
    return table.drop_columns("finish_reason").append_column("cut_off", cut_off)


def _merged(
    known: Inventory, parts: Sequence[PartFile], read: dict[PartFile, pa.Table | None]
) -> pa.Table:
    """The rows of `parts`, taken from what is known and what was read."""
    number = {part: i for i, part in enumerate(parts)}
    renumbered = np.array([number.get(part, -1) for part in known.parts], dtype=np.int32)
    tables = [known.rows.drop_columns("part")]
    numbers = [renumbered[known.part_S] if len(known.parts) else known.part_S]
    for part, rows in read.items():
        if rows is not None:
            tables.append(rows)
            numbers.append(np.full(len(rows), number[part], dtype=np.int32))
    part_S = np.concatenate(numbers)
    rows = pa.concat_tables(tables).add_column(0, SCHEMA.field("part"), pa.array(part_S))
    rows = rows.unify_dictionaries().combine_chunks()
    if (part_S < 0).any():
        rows = rows.filter(part_S >= 0)
        part_S = part_S[part_S >= 0]
    if (np.diff(part_S) < 0).any():
        rows = rows.take(np.argsort(part_S, kind="stable"))
    return rows


def _refuse_contradictions(folder: Path, inventory: Inventory) -> None:
    """The same sample may be stored several times, but not as different texts."""
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
                f"{folder} holds different texts for sample {inventory.index_S[first]} of problem "
                f"{problem}: in {' and '.join(dict.fromkeys(names))}",
                "move one of the two elsewhere: samples that it alone held are drawn again",
            )


def _texts(folder: Path, inventory: Inventory, rows: np.ndarray[Any, Any]) -> dict[int, str]:
    """The texts of some rows, by row."""
    starts = np.searchsorted(inventory.part_S, np.arange(len(inventory.parts)))
    found: dict[int, str] = {}
    for part in np.unique(inventory.part_S[rows]).tolist():
        wanted = rows[inventory.part_S[rows] == part]
        texts = read_part(folder / inventory.parts[part].name, ["text"])["text"]
        found |= zip(wanted.tolist(), texts.take(wanted - starts[part]).to_pylist(), strict=True)
    return found
