"""A folder of tables that belong together, each file with its checksum: a cache of results."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sage_cli.store.arrow_tables import empty_table, joined, read_sealed, write_sealed
from sage_cli.store.atomic import write_json

FILES_AT_MOST = 32


@dataclass(frozen=True)
class SealedTables:
    """Tables of one schema in `folder`, in files that end in `kind`.

    `author` is everything that decides the values; `<role>.json` records it.
    """

    folder: Path
    kind: str
    schema: pa.Schema
    role: str
    author: Mapping[str, Any]

    def table(self, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
        """Return rows, one or more, as a table."""
        names = self.schema.names
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        return pa.table(columns, schema=self.schema)

    def write(self, table: pa.Table) -> None:
        """Write a table to a file of its own. Raises OSError."""
        description = self.folder / f"{self.role}.json"
        if not description.is_file():
            write_json(description, self.author)
        write_sealed(self.folder / f"{secrets.token_hex(8)}.{self.kind}", table)

    def read(self, *, read_only: bool) -> pa.Table:
        """Return all stored rows; many files are merged into one, torn ones removed.

        With `read_only` all files stay as they are.
        """
        files = sorted(self.folder.glob(f"*.{self.kind}"))
        tables = {file: read_sealed(file, self.schema) for file in files}
        readable = [table for table in tables.values() if table is not None]
        merged = joined([empty_table(self.schema), *readable])
        if read_only:
            return merged
        with suppress(OSError):
            old = [file for file, table in tables.items() if table is None]
            if len(readable) > FILES_AT_MOST:
                self.write(merged)
                old = files
            for file in old:
                file.unlink(missing_ok=True)
        return merged
