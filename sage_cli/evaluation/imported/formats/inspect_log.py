"""Logs of Inspect: `.json`, or `.eval`, a zip archive of JSON packed with Zstandard or deflate."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from sage_cli.errors import DataError
from sage_cli.evaluation.imported.foreign import (
    ForeignFile,
    ForeignSample,
    chosen_score,
    only,
    whole,
)
from sage_cli.json_value import json_value

NEEDED = {"eval", "status", "samples"}
_ZSTANDARD = 93
"""The method of compression in a zip archive, which Python reads from 3.14 on."""
_MOST_BYTES, _FLOOR, _RATIO = 2**30, 2**28, 200
"""Bounds on one unpacked file, and on all of them: 256 MiB, or 200 times the size of the log."""
_HEADER = struct.Struct("<26xHH")
_VALUES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, True: 1.0, False: 0.0}


def read(path: Path, score: str | None) -> ForeignFile:
    """Return a log's samples; an epoch is a sample of its problem.

    Raises DataError for a log without samples, without that score, or that is damaged.
    """
    with whole(path, "write the log again with `inspect log convert`"):
        if zipfile.is_zipfile(path):
            head, samples = _packed(path)
        else:
            head = json_value(path.read_bytes())
            samples = head["samples"] or ()
        return _file(path, head, list(samples), score)


def _packed(path: Path) -> tuple[Mapping[str, Any], Iterable[Any]]:
    try:
        archive = zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise DataError(f"{path} is damaged: {error}") from None
    with archive:
        infos = {info.filename: info for info in archive.infolist()}
    size = sum(info.file_size for info in infos.values())
    if size > max(_FLOOR, _RATIO * path.stat().st_size):
        raise DataError(f"{path} would unpack to {size:,} bytes", "import a smaller log")
    if "header.json" not in infos:
        raise DataError(
            f"{path} has no header.json: the evaluation was not finished",
            "run `inspect eval-retry` on it, and import its log",
        )
    names = sorted(name for name in infos if name.startswith("samples/"))
    return _member(path, infos["header.json"]), (_member(path, infos[name]) for name in names)


def _member(path: Path, info: zipfile.ZipInfo) -> Any:
    """Return the JSON value of a packed file."""
    if info.file_size > _MOST_BYTES:
        raise DataError(f"{info.filename} of {path} would have {info.file_size:,} bytes")
    if info.compress_type != _ZSTANDARD:
        with zipfile.ZipFile(path) as archive:
            return json_value(archive.read(info))
    with path.open("rb") as file:
        file.seek(info.header_offset)
        name, extra = _HEADER.unpack(file.read(_HEADER.size))
        file.seek(name + extra, 1)
        packed = file.read(info.compress_size)
    try:
        return json_value(pa.Codec("zstd").decompress(packed, info.file_size, asbytes=True))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{info.filename} of {path} is damaged: {error}") from None


def _file(path: Path, head: Mapping[str, Any], rows: list[Any], score: str | None) -> ForeignFile:
    if not rows:
        raise DataError(
            f"{path} holds no samples", "evaluate again without --no-log-samples, or another log"
        )
    failed = [row for row in rows if row.get("error")]
    rows = sorted(
        (row for row in rows if not row.get("error")),
        key=lambda row: (str(row["id"]), row["epoch"]),
    )
    scores = list(dict.fromkeys(name for row in rows for name in row.get("scores") or {}))
    chosen = chosen_score(scores, score, str(path))
    samples = [_sample(row, chosen, f"{path}, sample {row['id']}") for row in rows]
    partial = sum(_value(row, chosen) not in (None, 0.0, 1.0) for row in rows)
    notes = [
        f"{len(failed)} samples failed, and are left out" if failed else "",
        f"{partial} values of {chosen} are between 0 and 1: they count as wrong" if partial else "",
        f"scores not taken: {', '.join(one for one in scores if one != chosen)}"
        if len(scores) > 1
        else "",
    ]
    about, config = head["eval"], (head.get("plan") or {}).get("config") or {}
    config = {**config, **(about.get("model_generate_config") or {})}
    settings = {key: config.get(key) for key in ("temperature", "top_p", "max_tokens", "seed")}
    settings = {"model": about.get("model"), "task": about.get("task"), **settings}
    settings["version"] = (about.get("packages") or {}).get("inspect_ai")
    return ForeignFile("inspect", samples, chosen, settings, tuple(filter(None, notes)))


def _sample(row: Mapping[str, Any], score: str | None, place: str) -> ForeignSample:
    choice = row["output"]["choices"][0]
    value = _value(row, score)
    answer = (row.get("scores") or {}).get(score or "", {}).get("answer")
    usage = row["output"].get("usage") or {}
    stopped = choice.get("stop_reason")
    target = row.get("target")
    return ForeignSample(
        problem=str(row["id"]),
        question=_question(row["input"]),
        text=_text(choice["message"]["content"]),
        gold=None if target in (None, "", []) else only(target, place, "target"),
        right=None if value is None else value >= 1,
        extracted=answer if isinstance(answer, str) and answer else None,
        tokens=usage.get("output_tokens"),
        finish_reason="length" if stopped in ("max_tokens", "model_length") else "stop",
    )


def _value(row: Mapping[str, Any], score: str | None) -> float | None:
    value = (row.get("scores") or {}).get(score or "", {}).get("value")
    if isinstance(value, str | bool):
        return _VALUES.get(value)
    return float(value) if isinstance(value, int | float) else None


def _question(asked: Any) -> str:
    """Return the input, of a conversation all turns of system and user."""
    if isinstance(asked, str):
        return asked
    return "\n\n".join(_text(turn["content"]) for turn in asked if turn.get("role") != "assistant")


def _text(content: Any) -> str:
    """Return a message's text; of parts those that are texts."""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")
