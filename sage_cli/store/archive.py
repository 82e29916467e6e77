"""An archive of runs: one file with what is needed to check every number, without the weights.

A tar whose first member, `archive.json`, lists every other one with its SHA-256. The same runs make
the same bytes; the hash of that list is the archive's digest, by which it can be named in print.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import secrets
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

from sage_cli.content import file_hash
from sage_cli.errors import StoreError
from sage_cli.store.atomic import replacing
from sage_cli.store.index import FILE as INDEX
from sage_cli.store.json_text import json_text
from sage_cli.store.run import Run
from sage_cli.store.samples import DESCRIPTION

LIST, FORMAT = "archive.json", 1
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth")
LEFT_OUT = ("checkpoints", "wandb", "tensorboard", "claims", INDEX)
"""What a run or a sample set holds besides what numbers are read from."""
RUNS, SAMPLES = "runs", "samples"
_AGAIN = "have it made again by `sage runs archive`"


@dataclass(frozen=True)
class Archive:
    """What an archive holds: its runs, the first of which it is about, and its sample sets."""

    runs: tuple[str, ...]
    sample_sets: tuple[str, ...]
    files: Mapping[str, str]
    digest: str


def write_archive(
    file: Path, runs: Sequence[Run], sample_sets: Sequence[Path], added: Mapping[str, bytes]
) -> Archive:
    """Put runs and sample sets into `file`, and what `added` holds by its name inside."""
    paths = {
        f"{kind}/{folder.name}/{path.relative_to(folder).as_posix()}": path
        for kind, folders in ((RUNS, [run.folder for run in runs]), (SAMPLES, sample_sets))
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if _belongs(path, folder)
    }
    hashes = {name: file_hash(path) for name, path in paths.items()}
    hashes |= {name: hashlib.sha256(text).hexdigest() for name, text in added.items()}
    hashes = dict(sorted(hashes.items()))
    listed = {"format": FORMAT, "runs": [run.id for run in runs],
              "sample_sets": [folder.name for folder in sample_sets], "files": hashes}  # fmt: skip
    text = json_text(listed).encode()
    with (
        replacing(file) as temporary,
        temporary.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        _add(tar, LIST, text)
        for name in hashes:
            _add(tar, name, paths[name].read_bytes() if name in paths else added[name])
    return _archive(text, file)


def sets_of(root: Path, models: Sequence[str]) -> list[Path]:
    """The folders of all sample sets below `root` that models of these fingerprints drew."""
    found = []
    for described in sorted((root / SAMPLES).glob(f"*/{DESCRIPTION}")):
        try:
            listed = json.loads(described.read_text(encoding="utf-8"))
        except ValueError:
            continue
        if isinstance(listed, dict) and listed.get("model") in models:
            found.append(described.parent)
    return found


@contextmanager
def unpacked(file: Path, root: Path) -> Iterator[tuple[Archive, Path]]:
    """An archive, and a folder below `root` with its files, which goes when the block is left.

    Raises StoreError where the archive is torn, was changed, or holds what it doesn't list.
    """
    root.mkdir(parents=True, exist_ok=True)
    folder = root / f".archive.{secrets.token_hex(4)}.tmp"
    try:
        with tarfile.open(file, mode="r:gz") as tar:
            archive = _read(tar, file, folder)
        yield archive, folder
    except FileNotFoundError:
        raise StoreError(
            f"there is no file {file}", "name what `sage runs archive` wrote"
        ) from None
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise StoreError(f"{file} is no archive, or torn: {error}", _AGAIN) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(tar: tarfile.TarFile, file: Path, folder: Path) -> Archive:
    """Write every member to `folder`, each found to be what the list says."""
    first = tar.next()
    listing = tar.extractfile(first) if first is not None and first.name == LIST else None
    if listing is None:
        raise StoreError(f"{file} is no archive of a run: it begins without {LIST}", _AGAIN)
    archive = _archive(listing.read(), file)
    left = dict(archive.files)
    while (member := tar.next()) is not None:
        content = tar.extractfile(member) if member.isreg() else None
        if content is None or member.name not in left:
            raise _changed(file, f"it holds {member.name}, which it doesn't list")
        bytes_ = content.read()
        if hashlib.sha256(bytes_).hexdigest() != left.pop(member.name):
            raise _changed(file, f"{member.name} isn't what was archived")
        place = folder / member.name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(bytes_)
    if left:
        raise _changed(file, f"{next(iter(left))} is missing")
    return archive


def _archive(text: bytes, file: Path) -> Archive:
    try:
        listed: dict[str, Any] = json.loads(text)
        files, runs, sets = (
            dict(listed["files"]),
            tuple(listed["runs"]),
            tuple(listed["sample_sets"]),
        )
        if listed["format"] != FORMAT:
            raise StoreError(
                f"{file} has the format {listed['format']}, and this release reads {FORMAT}",
                "use the release that wrote it",
            )
    except (ValueError, KeyError, TypeError) as error:
        raise _changed(file, f"its {LIST} can't be read ({error})") from None
    for name in files:
        kind, *rest = PurePosixPath(name).parts
        known = {RUNS: runs, SAMPLES: sets}.get(kind, ())
        if len(rest) < 2 or rest[0] not in known or {"..", "/"} & {kind, *rest}:
            raise _changed(file, f"it lists {name}, which is part of no run or sample set")
    return Archive(runs, sets, files, hashlib.sha256(text).hexdigest())


def _changed(file: Path, how: str) -> StoreError:
    return StoreError(f"{file} was changed after it was made: {how}", _AGAIN)


def _belongs(path: Path, folder: Path) -> bool:
    inside = path.relative_to(folder).parts
    hidden = any(part.startswith(".") for part in inside)
    return path.is_file() and not (
        hidden or inside[0] in LEFT_OUT or path.suffix in WEIGHTS or path.is_symlink()
    )


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    """Without times and owners, which would make every archive another one."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    tar.addfile(member, BytesIO(content))
