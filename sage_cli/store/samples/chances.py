"""Exact chances of texts, stored in the folder of runs so that no model reads them twice."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sage_cli.store.arrow_tables import SealedTables
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

FloatArray = NDArray[np.float64]
Key = tuple[str, str, float]
"""Problem id, way, temperature."""

log = logging.getLogger(__name__)


class ChanceStore:
    """The folder `<root>/chances/<key>/`: log-probabilities by problem, way and temperature.

    `author` is everything else that decides them (weights, template, decoding); its hash is the
    key, `author.json` records it. It is a cache: what is torn or lost is computed again, and so is
    NaN.
    """

    def __init__(self, root: Path, author: Mapping[str, Any]) -> None:
        self.folder = root / "chances" / key_of(author)
        self._stored = SealedTables(self.folder, "chances", SCHEMA, "author", author)

    def read(self) -> dict[Key, float]:
        """Return all that is stored; nothing is written."""
        table = self._stored.read(read_only=True)
        columns = [table.column(name).to_pylist() for name in SCHEMA.names]
        rows = zip(*columns, strict=True)
        return {
            (id_, way, temperature): logp
            for id_, way, temperature, logp in rows
            if not math.isnan(logp)
        }

    def logps(
        self, ids: Sequence[str], ways: Sequence[str], temperatures: Sequence[float]
    ) -> FloatArray:
        """Return what is stored of them, shape (T, P, W), NaN elsewhere; nothing is written."""
        import pyarrow.compute as pc  # takes 0.1 s, and dry runs that import this file need none

        table = self._stored.read(read_only=True)
        texts = [table.column(name).cast(pa.string()) for name in ("problem_id", "way")]
        columns = [table.column("temperature"), *texts]
        axes = [pa.array(temperatures, pa.float64()), pa.array(ids), pa.array(ways, pa.string())]
        found_TPW = np.full([len(axis) for axis in axes], np.nan)
        places = [
            pc.fill_null(pc.index_in(column, value_set=axis), -1).to_numpy()
            for column, axis in zip(columns, axes, strict=True)
        ]
        logps = table.column("logp").to_numpy()
        known = np.all([~np.isnan(logps), *(place >= 0 for place in places)], axis=0)
        wanted = tuple(place[known] for place in places)
        found_TPW[wanted] = logps[known]
        return found_TPW

    def add(self, chances: Mapping[Key, float]) -> None:
        """Write chances to disk; if that fails, only this process has them."""
        try:
            self._stored.write(self._stored.table((*key, logp) for key, logp in chances.items()))
            self._stored.read(read_only=False)  # which merges many files
        except OSError as error:
            log.warning("chances can't be stored in %s: %s", self.folder, error.strerror or error)
