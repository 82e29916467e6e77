"""All that a folder holds, looked at in every byte: packed files are unpacked, tables are read."""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def found_in(folder: Path, secrets: Iterable[str]) -> list[tuple[str, str]]:
    """Which of `secrets` stands where below `folder`, in contents and in names of files."""
    wanted = list(secrets)
    pieces = [
        (f"{path.relative_to(folder)}{inside}", content)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
        for inside, content in _pieces(path.read_bytes())
    ]
    names = [(str(path), str(path).encode()) for path in folder.rglob("*")]
    return [
        (secret, where)
        for where, content in [*pieces, *names]
        for secret in wanted
        if secret.encode() in content
    ]


def _pieces(content: bytes, inside: str = "") -> Iterator[tuple[str, bytes]]:
    """A file's content, and that of whatever is packed in it, with the way to it."""
    yield inside, content
    packed: list[tuple[str, bytes]] = []
    if content[:2] == b"\x1f\x8b":
        packed = [("gunzip", gzip.decompress(content))]
    elif content[:4] == b"PAR1":
        packed = [("rows", _rows(content))]
    elif content[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(content)) as folder:
            packed = [(name, folder.read(name)) for name in folder.namelist()]
    elif content[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(content)) as folder:
            files = [(one.name, folder.extractfile(one)) for one in folder if one.isfile()]
            packed = [(name, file.read()) for name, file in files if file is not None]
    elif content[:4] == b"\x28\xb5\x2f\xfd":
        with suppress(OSError):
            packed = [("unzstd", pa.input_stream(pa.BufferReader(content), "zstd").read())]
    for name, part in packed:
        yield from _pieces(part, f"{inside}!{name}")


def _rows(content: bytes) -> bytes:
    table = pq.ParquetFile(pa.BufferReader(content)).read()
    return repr((table.schema.metadata, table.to_pylist())).encode()
