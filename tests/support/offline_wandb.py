"""Read back an offline W&B directory: the file that `wandb sync` would upload."""

import json
import struct
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from wandb.proto import wandb_internal_pb2

BLOCK, HEADER = 32768, struct.Struct("<IHB")
"""W&B writes LevelDB's log format: blocks of 32 KiB; checksum, length, type before each piece."""


@dataclass
class Offline:
    """What W&B would show of a run; `history` and `tables` are by step."""

    history: dict[int, dict[str, Any]] = field(default_factory=dict)
    tables: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    group: str = ""
    job: str = ""

    def of(self, name):
        """(step, value) of one metric, as they were written."""
        return [(step, row[name]) for step, row in self.history.items()]


def read_offline(folder):
    """The one offline run below `folder`/wandb."""
    (path,) = (folder / "wandb").glob("offline-run-*/run-*.wandb")
    found = Offline()
    for record in whole(path):
        kind = record.WhichOneof("record_type")
        if kind == "history":
            row = _values(record.history.item)
            step = row.pop("_step")
            assert step not in found.history
            if place := row.get("rollouts/path"):
                table = json.loads((path.parent / "files" / place).read_text())
                rows = (zip(table["columns"], cells, strict=True) for cells in table["data"])
                found.tables[step] = list(map(dict, rows))
            found.history[step] = row
        if kind == "summary":
            found.summary |= _values(record.summary.update)
        if kind == "run":
            found.config |= _values(record.run.config.update)
            found.group, found.job = record.run.run_group, record.run.job_type
    return found


def whole(path):
    """All records; W&B's own process may write the last of them after `finish` has returned."""
    for _ in range(600):
        found = list(_records(path.read_bytes()))
        if found and found[-1].WhichOneof("record_type") == "exit":
            return found
        time.sleep(0.05)
    pytest.fail(f"{path} was never finished")


def _values(items):
    return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}


def _records(data):
    place, begun = 7, b""  # the file's own header
    while place + HEADER.size <= len(data):
        left = BLOCK - place % BLOCK
        if left < HEADER.size:
            place += left
            continue
        _, length, kind = HEADER.unpack_from(data, place)
        piece = data[place + HEADER.size : place + HEADER.size + length]
        place += HEADER.size + length
        if len(piece) < length:
            return
        begun = piece if kind in (1, 2) else begun + piece
        if kind in (1, 4):  # whole, or the last piece
            yield wandb_internal_pb2.Record.FromString(begun)
