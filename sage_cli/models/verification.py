"""The weights that are loaded, compared with the hashes that were recorded of them.

Commands that load nothing believe the cache of hashes (`file_hash.py`). Where weights are loaded,
their content is hashed: a byte that rotted on the disk, or came with a backup of the same size and
time, changes results and is noticed by nothing else. A loader maps weights into memory and returns
before it has read them, so hashing takes longer than loading: what samples or trains waits for the
hashes only before its first result, which takes longer than both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from sage_cli.errors import DataError, StoreError
from sage_cli.file_hash import content_hash, remembered_hash
from sage_cli.models.folders import adapter_base, is_adapter, read_json
from sage_cli.models.hub_cache import cached_snapshot
from sage_cli.store.run import SEAL, run_of

_AT_ONCE = 4
"""Files that are read at once, at most: the loader reads too."""
_LOADED = (".safetensors", ".json", ".jinja", ".model", ".txt")
"""The endings of the files of a checkpoint that models and tokenizers are loaded from."""
_SHA256 = re.compile("[0-9a-f]{64}")
"""The name of a large file in the Hub's cache."""

_UNDER_WAY: set[str] = set()
"""The models that are being loaded and hashed."""
_UNREQUIRED: list[Verification] = []
"""The models that were loaded and whose hashes nobody has waited for yet."""


@dataclass(frozen=True)
class RecordedFile:
    """A file of a model with the SHA-256 that it had, and what to do if it has another now."""

    path: Path
    sha256: str
    next_step: str


class Verification:
    """The hashes of a model's files, computed in threads while the model is loaded.

    The threads end with the process: neither an error nor Ctrl-C waits for gigabytes.
    """

    def __init__(self, path: str | Path, revision: str | None = None) -> None:
        files: list[RecordedFile] = []
        with suppress(DataError):  # of an adapter that names no base: loading says why
            files = list(recorded_files(path, revision))
        self._hashes = [(file, Future[str | None]()) for file in files]
        waiting: SimpleQueue[tuple[RecordedFile, Future[str | None]]] = SimpleQueue()
        for pair in self._hashes:
            waiting.put(pair)
        # one processor is left to the loader, or hashing would delay what it runs beside
        threads = min(len(files), _AT_ONCE, max(1, (os.cpu_count() or 1) - 1))
        for _ in range(threads):
            Thread(target=_hash_each, args=(waiting,), daemon=True).start()

    def require(self) -> None:
        """Wait for the hashes. Raises StoreError for a file that isn't what was recorded of it."""
        for file, sha256 in self._hashes:
            if sha256.result() != file.sha256:
                if not file.path.exists():
                    raise StoreError(f"{file.path} is missing", file.next_step)
                raise StoreError(
                    f"{file.path} is damaged, or was changed: its content isn't what was "
                    "recorded of it",
                    file.next_step,
                )


@contextmanager
def verify_weights(
    path: str | Path, revision: str | None = None, *, later: bool = False
) -> Iterator[None]:
    """Hash a model's files in threads while the block loads them; an adapter's base's, too.

    Of several processes of a machine the first one does so, and of blocks inside one another the
    outermost. Raises StoreError, at the block's end or in place of its error, if a file's content
    isn't what was recorded of it. With `later` the block's end doesn't wait for the hashes: who
    uses the model calls `require_verified` before it stores a result or makes an update.
    """
    if os.environ.get("LOCAL_RANK", "0") != "0" or str(path) in _UNDER_WAY:
        yield
        return
    _UNDER_WAY.add(str(path))
    try:
        verification = Verification(path, revision)
        try:
            yield
        except Exception:
            verification.require()  # a damaged file explains better why loading failed
            raise
        if later:
            _UNREQUIRED.append(verification)
        else:
            verification.require()
    finally:
        _UNDER_WAY.discard(str(path))


def require_verified() -> None:
    """Wait for the hashes of the models that were loaded with `later`.

    Costs nothing once they are known. Raises StoreError as `verify_weights` does.
    """
    while _UNREQUIRED:
        _UNREQUIRED.pop().require()


def recorded_files(path: str | Path, revision: str | None = None) -> Iterator[RecordedFile]:
    """Yield the files of the model at `path` whose hashes are known, an adapter's base's first.

    The manifest has those of a run's model, the seal those of a checkpoint. The Hub's cache names
    large files by their hashes. Of any other file that hash counts by which this command, or an
    earlier one, told what model it is.
    """
    folder = Path(path) if Path(path).is_dir() else cached_snapshot(str(path), revision)
    if folder is None:
        return
    if is_adapter(folder):
        yield from recorded_files(adapter_base(folder), revision)
    if run := run_of(folder) if folder.name == "model" else None:
        files = run.try_manifest().get("files") or {}
        recorded = {name[6:]: files[name] for name in files if name.startswith("model/")}
        next_step = "restore the file, or train again with --fresh (this deletes the stored run)"
    else:
        recorded = sealed_to_load(folder)
        next_step = "restore the file, or remove the checkpoint"
    for name, sha256 in recorded.items():
        yield RecordedFile(folder / name, str(sha256), next_step)
    if not recorded:
        yield from filter(None, map(_recorded_elsewhere, sorted(folder.iterdir())))


def sealed_to_load(checkpoint: Path) -> dict[str, str]:
    """Return the hashes in a checkpoint's seal of what is loaded as a model; empty without one."""
    sealed = read_json(checkpoint / SEAL).get("files") or {}
    return {name: str(sealed[name]) for name in sealed if name.endswith(_LOADED)}


def _recorded_elsewhere(file: Path) -> RecordedFile | None:
    """Return a file with its hash by the Hub's cache or by ours; None if neither has one."""
    if not file.name.endswith(_LOADED) or not file.is_file():
        return None
    stored = file.resolve()
    if _SHA256.fullmatch(stored.name):
        return RecordedFile(stored, stored.name, "remove the file, and download the model again")
    if (sha256 := remembered_hash(file)) is None:
        return None
    return RecordedFile(file, sha256, f"restore the file; if the change is meant, `touch {file}`")


def _hash_each(waiting: SimpleQueue[tuple[RecordedFile, Future[str | None]]]) -> None:
    """Hash files until none is waiting; None stands for one that can't be read."""
    with suppress(Empty):
        while True:
            file, sha256 = waiting.get_nowait()
            try:
                sha256.set_result(content_hash(file.path))
            except OSError:
                sha256.set_result(None)
