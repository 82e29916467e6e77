"""The index of a sample set: what its parts hold, in one file that can be made anew at any time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

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
    """Several parts may hold the same sample, but not as different texts."""
    repeats = np.flatnonzero(inventory.repeats_S)
    if not len(repeats):
        return
    firsts = inventory.locate(
        inventory.problem_ids, inventory.problem_S[repeats], inventory.index_S[repeats]
    )
    pairs = np.unique(inventory.part_S[np.stack([firsts, repeats])], axis=1)
    for first, second in pairs.T.tolist():
        names = [inventory.parts[part].name for part in (first, second)]
        texts = [_texts(folder / name) for name in names]
        for sample in texts[0].keys() & texts[1].keys():
            if texts[0][sample] != texts[1][sample]:
                raise StoreError(
                    f"two parts in {folder} hold different texts for sample {sample[1]} of problem "
                    f"{sample[0]}: {names[0]} and {names[1]}",
                    "move one of the two elsewhere: samples that it alone held are drawn again",
                )


def _texts(path: Path) -> dict[tuple[str, int], str]:
    table = read_part(path, ["problem_id", "index", "text"])
    ids, indices, texts = (table[name].to_pylist() for name in ("problem_id", "index", "text"))
    return dict(zip(zip(ids, indices, strict=True), texts, strict=True))
