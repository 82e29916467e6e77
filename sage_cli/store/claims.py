"""Claims by which several writers of one sample set share its samples.

Every writer has a lock of its own: when it dies, or another host's heartbeat stops, its claim is
void.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sage_cli.errors import StoreError
from sage_cli.json_value import json_value
from sage_cli.store.files import storing, write_text
from sage_cli.store.locks import HeldError, Holder, Lease, is_locked, locked

_PATIENCE_S = 60.0
"""Longer than reading the inventory of a set takes."""


@dataclass(frozen=True)
class SampleClaim:
    """Samples (indices by problem) that a living process is about to sample."""

    holder: str
    indices: Mapping[str, Sequence[int]]


class Claims:
    """The folder `claims/` of a sample set: `<token>.lock` and `<token>.json` of each writer."""

    def __init__(self, samples: Path) -> None:
        self.token = secrets.token_hex(4)
        self._folder = samples / "claims"
        self._own = self._folder / f"{self.token}.json"
        self._lease: Lease | None = None

    @contextmanager
    def registered(self) -> Iterator[None]:
        """Register this process as one of the writers while the block runs."""
        with ExitStack() as life:
            with self.mutex():
                # Within the mutex: otherwise another writer could find the lock file before it is
                # held, take its owner for dead, and remove it.
                lock = locked(self._own.with_suffix(".lock"), _PATIENCE_S)
                self._lease = life.enter_context(lock)
            try:
                yield
            finally:
                with self.mutex():
                    _remove(self._own)

    def require(self) -> None:
        """Raise StoreError if this writer was silent for so long that its claim is void."""
        if self._lease is not None:
            self._lease.require()

    @contextmanager
    def mutex(self) -> Iterator[None]:
        """Exclude other writers while this one reads the inventory and claims."""
        with ExitStack() as stack:
            try:
                stack.enter_context(locked(self._folder / "mutex", _PATIENCE_S))
            except HeldError as error:
                raise StoreError(
                    f"{error} has locked {self._folder} for {_PATIENCE_S:.0f} s",
                    "find the stopped process that writes there; continue or end it",
                ) from None
            yield

    def others(self) -> dict[str, SampleClaim]:
        """Return the other living writers' claims by token, remove dead ones. Needs the mutex."""
        alive = {}
        for lock in sorted(self._folder.glob("*.lock")):
            claim = lock.with_suffix(".json")
            if lock.stem == self.token:
                continue
            if is_locked(lock):
                alive[lock.stem] = _read(claim)
            else:
                _remove(claim)
        return alive

    def sweep(self) -> None:
        """Remove the half-written files of killed writers. Needs the mutex."""
        alive = self.others()
        samples = self._folder.parent
        for leftover in [*samples.glob(".*.tmp"), *self._folder.glob(".*.tmp")]:
            if not any(token in leftover.name for token in alive):
                leftover.unlink(missing_ok=True)

    def take(self, indices: Mapping[str, Sequence[int]]) -> None:
        """Replace this writer's claim by these samples. Needs the mutex."""
        with storing(self._folder):
            if indices:
                claim = {"holder": str(Holder.this_process()), "indices": indices}
                write_text(self._own, json.dumps(claim))
            else:
                self._own.unlink(missing_ok=True)


def _read(path: Path) -> SampleClaim:
    """Return a file's claim; empty if absent or corrupt, since a repeated sample counts once."""
    try:
        claim = json_value(path.read_bytes())
        return SampleClaim(claim["holder"], dict(claim["indices"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return SampleClaim("", {})


def _remove(claim: Path) -> None:
    claim.unlink(missing_ok=True)
    for suffix in (".lock", ".lock.lease"):
        claim.with_suffix(suffix).unlink(missing_ok=True)
