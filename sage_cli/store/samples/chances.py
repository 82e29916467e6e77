"""Exact chances of texts, stored in the folder of runs so that no model reads them twice."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sage_cli.store.arrow_tables import empty_table, read_sealed, write_sealed
from sage_cli.store.atomic import write_json
from sage_cli.store.identity import key_of

_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("problem_id", _NAME),
        ("way", _NAME),
        ("temperature", pa.float64()),
        ("logp", pa.float64()),
    ]
)
FILES_AT_MOST = 16

Key = tuple[str, str, float]
"""Problem id, way, temperature."""

log = logging.getLogger(__name__)


class ChanceStore:
    """The folder `<root>/chances/<key>/`: log-probabilities by problem, way and temperature.

    `author` is everything else that decides them (weights, template, decoding); its hash is the
    key, `author.json` records it. It is a cache: what is torn or lost is computed again.
    """

    def __init__(self, root: Path, author: Mapping[str, Any]) -> None:
        self.folder = root / "chances" / key_of(author)
        self._author = author

    def read(self) -> dict[Key, float]:
        """Return all that is stored; nothing is written."""
        found: dict[Key, float] = {}
        for _, table in self._tables():
            columns = [table.column(name).to_pylist() for name in SCHEMA.names]
            for problem_id, way, temperature, logp in zip(*columns, strict=True):
                found[problem_id, way, temperature] = logp
        return found

    def add(self, chances: Mapping[Key, float]) -> None:
        """Write chances to disk; if that fails, only this process has them."""
        try:
            if not (self.folder / "author.json").is_file():
                write_json(self.folder / "author.json", self._author)
            self._write(chances.items())
            self._merge()
        except OSError as error:
            log.warning("chances can't be stored in %s: %s", self.folder, error.strerror or error)

    def _write(self, chances: Iterable[tuple[Key, float]]) -> None:
        rows = [(*key, logp) for key, logp in chances]
        columns = dict(zip(SCHEMA.names, map(list, zip(*rows, strict=True)), strict=True))
        table = pa.table(columns, schema=SCHEMA) if rows else empty_table(SCHEMA)
        write_sealed(self.folder / f"{secrets.token_hex(8)}.chances", table)

    def _merge(self) -> None:
        """Replace many files by one."""
        files = [file for file, _ in self._tables()]
        if len(files) > FILES_AT_MOST:
            self._write(self.read().items())
            for file in files:
                file.unlink(missing_ok=True)

    def _tables(self) -> list[tuple[Path, pa.Table]]:
        files = sorted(self.folder.glob("*.chances"))
        tables = ((file, read_sealed(file, SCHEMA)) for file in files)
        return [(file, table) for file, table in tables if table is not None]
