"""Parquet files of a training's steps: one between two checkpoints, written before the later one.

So a training that is killed and resumed has the rows of an undisturbed one.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from sage_cli.store.arrow_tables import empty_table
from sage_cli.store.atomic import replacing, storing
from sage_cli.store.json_files import warn_once
from sage_cli.store.lease import Lease


class StepFiles:
    """The files of one schema in `folder`, whose rows have a `step`, by which they are sorted.

    Every new file requires `lease`, that of the run. Processes that train together write files of
    their own.
    """

    def __init__(
        self, folder: Path, schema: pa.Schema, lease: Lease | None = None, process: int = 0
    ) -> None:
        self.folder, self.schema = folder, schema
        self._lease, self._process = lease, process

    def write(self, table: pa.Table) -> None:
        """Write rows that come after all others. Raises StoreError."""
        import pyarrow.parquet as pq

        first, last = table["step"][0].as_py(), table["step"][-1].as_py()
        file = self.folder / f"steps-{first:08d}-{last:08d}-{self._process}.parquet"
        if self._lease is not None:
            self._lease.require()
        with storing(self.folder), replacing(file) as temporary:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)

    def rewind(self, step: int) -> None:
        """Remove the rows of all processes after `step` (0 removes all)."""
        for file in self._files():
            table = self._read(file)
            steps = [] if table is None else table["step"].to_pylist()
            kept = sum(one <= step for one in steps)
            if table is None or kept < len(table):
                if table is not None and kept:
                    process = int(file.stem.rpartition("-")[2])
                    StepFiles(self.folder, self.schema, self._lease, process).write(
                        table.slice(0, kept)
                    )
                file.unlink(missing_ok=True)

    def read(self) -> pa.Table:
        """Return all rows, file by file; a torn file is left out with one warning.

        A column that only some files have is null in the rows of the others.
        """
        found = [table for file in self._files() if (table := self._read(file)) is not None]
        return pa.concat_tables([empty_table(self.schema), *found], promote_options="default")

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("steps-*.parquet"))

    def _read(self, file: Path) -> pa.Table | None:
        """Return a file's rows; None if it is torn, was altered, or is of another layout."""
        import pyarrow.parquet as pq

        try:
            table = pq.ParquetFile(file, page_checksum_verification=True).read()
        except (OSError, pa.ArrowException):
            table = None
        if table is None or not self._has_layout(table.schema):
            warn_once(f"{file} is torn or was altered: its steps are left out")
            return None
        return table

    def _has_layout(self, schema: pa.Schema) -> bool:
        return bool(schema.equals(self.schema))
