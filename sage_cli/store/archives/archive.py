"""Archives of runs: one file with all that is needed to check every result, without the weights.

An archive is a compressed tar. Its first member, `archive.json`, lists all others with size and
SHA-256. The same runs give the same bytes; the hash of the list is the archive's digest. An archive
may be anybody's: it is read header by header, in constant memory, and no further than its list.
"""

from __future__ import annotations

import gzip
import hashlib
import secrets
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from sage_cli.errors import StoreError
from sage_cli.file_hash import file_hash
from sage_cli.store.archives.listing import (
    AGAIN,
    FORMAT,
    LIST,
    LIST_BYTES,
    RUNS,
    SAMPLES,
    Archive,
    ListedFile,
    belongs,
    foreign,
    listed,
    not_as_made,
    refuse_excess,
    shown,
)
from sage_cli.store.atomic import replacing, storing
from sage_cli.store.json_files import json_text, read_object
from sage_cli.store.runs.run import Run
from sage_cli.store.samples.sample_set import DESCRIPTION

_CHUNK = 2**20


def write_archive(
    file: Path, runs: Sequence[Run], sample_sets: Sequence[Path], added: Mapping[str, bytes]
) -> Archive:
    """Write runs, sample sets and the contents `added`, by their names inside, to `file`.

    Raises StoreError for an archive that `unpacked` would refuse.
    """
    paths = {
        f"{kind}/{folder.name}/{path.relative_to(folder).as_posix()}": path
        for kind, folders in ((RUNS, [run.folder for run in runs]), (SAMPLES, sample_sets))
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and not path.is_symlink()
        and belongs(kind, PurePosixPath(path.relative_to(folder).as_posix()))
    }
    files = {
        name: ListedFile(bytes=path.stat().st_size, sha256=file_hash(path))
        for name, path in paths.items()
    }
    files |= {
        name: ListedFile(bytes=len(text), sha256=hashlib.sha256(text).hexdigest())
        for name, text in added.items()
    }
    files = dict(sorted(files.items()))
    ids, keys = tuple(run.id for run in runs), tuple(folder.name for folder in sample_sets)
    listing = {"format": FORMAT, "runs": ids, "sample_sets": keys, "files": files}
    text = json_text(listing).encode()
    archive = Archive(ids, keys, files, hashlib.sha256(text).hexdigest())
    if (why := foreign(archive)) is not None:
        raise StoreError(f"{ids[0]} can't be archived: {why}", "rename it, or move it elsewhere")
    with (
        replacing(file) as temporary,
        temporary.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
        # no extended headers: a reader would have to trust their sizes
        tarfile.open(
            fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT, encoding="utf-8"
        ) as tar,
    ):
        _add(tar, LIST, len(text), BytesIO(text))
        for name, entry in files.items():
            with paths[name].open("rb") if name in paths else BytesIO(added[name]) as content:
                _add(tar, name, entry["bytes"], cast(BinaryIO, content))
    return archive


def sets_of(root: Path, models: Sequence[str]) -> list[Path]:
    """Return the folders of all sample sets below `root` of models with these fingerprints."""
    folders = []
    for described in sorted((root / SAMPLES).glob(f"*/{DESCRIPTION}")):
        try:
            description = read_object(described, AGAIN)
        except StoreError:
            continue
        if description.get("model") in models:
            folders.append(described.parent)
    return folders


@contextmanager
def unpacked(file: Path, root: Path) -> Iterator[tuple[Archive, Path]]:
    """Yield an archive and a temporary folder below `root` with its files.

    Raises StoreError if the archive is torn, was changed, or holds unlisted files.
    """
    folder = root / f".archive.{secrets.token_hex(4)}.tmp"
    try:
        yield _unpack(file, folder), folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unpack(file: Path, folder: Path) -> Archive:
    try:
        with file.open("rb") as raw, gzip.GzipFile(fileobj=raw) as stream:
            archive = _list_of(stream, file)
            refuse_excess(archive, file.stat().st_size, file)
            _write_members(stream, archive, file, folder)
            return archive
    except FileNotFoundError:
        raise StoreError(
            f"there is no file {file}", "name a file from `sage runs archive`"
        ) from None
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise StoreError(f"{file} is no archive, or is torn: {shown(error)}", AGAIN) from None
    except OSError as error:
        raise StoreError(
            f"{file} can't be read: {error.strerror or error}", "name a file that can be read"
        ) from error


def _list_of(stream: gzip.GzipFile, file: Path) -> Archive:
    first = _header(stream)
    if first is None or first.name != LIST or not first.isreg():
        raise StoreError(f"{file} is no archive of a run: it begins without {LIST}", AGAIN)
    if first.size > LIST_BYTES:
        raise not_as_made(file, f"its {LIST} has {first.size:,} bytes, more than {LIST_BYTES:,}")
    return listed(b"".join(_content(stream, first.size)), file)


def _write_members(stream: gzip.GzipFile, archive: Archive, file: Path, folder: Path) -> None:
    """Write every member to `folder` and check it against the list."""
    left = dict(archive.files)
    with storing(folder.parent):
        folder.mkdir(parents=True)
    while (member := _header(stream)) is not None:
        if not member.isreg() or member.name not in left:
            raise not_as_made(file, f"it holds {shown(member.name)}, which it does not list")
        expected = left.pop(member.name)
        if member.size != expected["bytes"]:
            raise not_as_made(file, f"{member.name} is not what was archived")
        path, digest = folder / member.name, hashlib.sha256()
        with storing(folder):
            path.parent.mkdir(parents=True, exist_ok=True)
            written = path.open("xb")
        with written:
            for chunk in _content(stream, member.size):
                digest.update(chunk)
                with storing(folder):
                    written.write(chunk)
        if digest.hexdigest() != expected["sha256"]:
            raise not_as_made(file, f"{member.name} is not what was archived")
    if left:
        raise not_as_made(file, f"{next(iter(left))} is missing")
    rest = stream.read(tarfile.RECORDSIZE + 1)
    if len(rest) > tarfile.RECORDSIZE or rest.strip(b"\0"):
        raise not_as_made(file, "something follows its end")


def _header(stream: gzip.GzipFile) -> tarfile.TarInfo | None:
    """Return the next member's header, None at the end. Headers have one block."""
    block = stream.read(tarfile.BLOCKSIZE)
    if not block.strip(b"\0"):
        return None
    return tarfile.TarInfo.frombuf(block, "utf-8", "replace")


def _content(stream: gzip.GzipFile, size: int) -> Iterator[bytes]:
    """Yield a member's content in chunks, and skip the padding."""
    left = size
    while left:
        chunk = stream.read(min(left, _CHUNK))
        if not chunk:
            raise EOFError("it ends too early")
        left -= len(chunk)
        yield chunk
    stream.read(-size % tarfile.BLOCKSIZE)


def _add(tar: tarfile.TarFile, name: str, size: int, content: BinaryIO) -> None:
    """Add a member without times and owners, so that the same runs give the same bytes."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    try:
        tar.addfile(member, content)
    except ValueError as error:  # the name or the size does not fit into the header
        raise StoreError(
            f"{name} can't be archived: {error}", "give it a shorter name, or remove it"
        ) from None
