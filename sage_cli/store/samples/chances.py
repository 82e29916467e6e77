"""Exact chances of texts, stored in the folder of runs so that no model reads them twice."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sage_cli.store.identity import key_of
from sage_cli.store.sealed_tables import SealedTables

_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("problem_id", _NAME),
        ("way", _NAME),
        ("temperature", pa.float64()),
        ("logp", pa.float64()),
    ]
)

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
        self._stored = SealedTables(self.folder, "chances", SCHEMA, "author", author)

    def read(self) -> dict[Key, float]:
        """Return all that is stored; nothing is written."""
        table = self._stored.read(read_only=True)
        columns = [table.column(name).to_pylist() for name in SCHEMA.names]
        rows = zip(*columns, strict=True)
        return {(id_, way, temperature): logp for id_, way, temperature, logp in rows}

    def add(self, chances: Mapping[Key, float]) -> None:
        """Write chances to disk; if that fails, only this process has them."""
        try:
            self._stored.write(self._stored.table((*key, logp) for key, logp in chances.items()))
            self._stored.read(read_only=False)  # which merges many files
        except OSError as error:
            log.warning("chances can't be stored in %s: %s", self.folder, error.strerror or error)
