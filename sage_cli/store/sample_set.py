"""Sample sets, and the claims by which several writers of one set share its samples.

Every writer has a lock of its own: when it dies, or another host's heartbeat stops, its claim is
void.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.errors import StoreError
from sage_cli.json_value import json_value
from sage_cli.store.completion import Completion
from sage_cli.store.files import storing, write_text
from sage_cli.store.inventory import Inventory, Mask
from sage_cli.store.inventory_index import INDEX_FILE, load_index, refreshed, write_index
from sage_cli.store.json_files import (
    CorruptFileError,
    read_object,
    warn_of_corrupt_file,
    warn_once,
    write_json,
    write_object,
)
from sage_cli.store.locks import HeldError, Holder, Lease, is_locked, locked
from sage_cli.store.result_hash import key_of
from sage_cli.store.sample_parts import (
    DamagedPartError,
    completions_of,
    name_strangers,
    part_number,
    read_part,
    set_aside,
    write_part,
)
from sage_cli.store.tables import as_column

_PATIENCE_S = 60.0
"""Longer than reading the inventory of a set takes."""
_FLUSH_ROWS = 512
FLUSH_S = 5.0
CHUNK = 4096
"""Samples in a claim; a sixteenth of the missing ones if that is more, up to sixteen times as many:
an engine runs empty at the end of each claim."""
_POLL_S = 0.5
log = logging.getLogger(__name__)
DESCRIPTION = "set.json"
"""A set's identity in full."""
ENGINES = "engines.json"
"""Engine and versions of the writers of a set, each once."""
OWN_NAMES = frozenset({DESCRIPTION, ENGINES, INDEX_FILE, "claims", "grades", "scores", "tokens"})
"""Names in a set's folder besides parts."""


@dataclass(frozen=True)
class _Claim:
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

    def others(self) -> dict[str, _Claim]:
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


def _read(path: Path) -> _Claim:
    """Return a file's claim; empty if absent or corrupt, since a repeated sample counts once."""
    try:
        claim = json_value(path.read_bytes())
        return _Claim(claim["holder"], dict(claim["indices"]))
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return _Claim("", {})


def _remove(claim: Path) -> None:
    claim.unlink(missing_ok=True)
    for suffix in (".lock", ".lock.lease"):
        claim.with_suffix(suffix).unlink(missing_ok=True)


class SampleWriter:
    """Collects completions and writes them as parts of some hundred rows or some seconds.

    `inventory` is the set's at the last claim.
    """

    def __init__(
        self,
        folder: Path,
        claims: Claims,
        inventory: Inventory,
        provenance: Mapping[str, str],
        on_stored: Callable[[list[Completion]], None],
    ) -> None:
        self.inventory = inventory
        self._folder, self._claims = folder, claims
        self._provenance, self._on_stored = provenance, on_stored
        numbers = (part_number(part.name) for part in inventory.parts)
        self._next_number = max(numbers, default=-1) + 1
        self._rows: list[Completion] = []
        self._flushed_s = time.monotonic()
        self._due: dict[str, set[int]] = {}
        self._not_delivered: defaultdict[str, set[int]] = defaultdict(set)

    def claim(self, problem_ids: Sequence[str], n: int) -> dict[str, tuple[int, ...]]:
        """Return the samples below `n`, by problem, to sample next; none if all are stored.

        Claims of other living writers are left to them. If nothing else is missing, this waits
        until those samples are stored or their writer is gone. Samples that this writer has
        claimed before and not added are not claimed again.
        """
        self.flush()
        for problem_id, indices in self._due.items():
            # Samples that were asked for and never came, because a server refused the prompt, would
            # otherwise be claimed again without end.
            self._not_delivered[problem_id] |= indices
        awaited = ""
        while True:
            with self._claims.mutex():
                others = self._claims.others()
                self._refresh()
                free, holders = self._share(problem_ids, n, others)
                self._claims.take(free)
            self._due = {problem_id: set(indices) for problem_id, indices in free.items()}
            if free or not holders:
                return free
            if holders != awaited:
                log.warning("waiting for samples from %s", holders)
                awaited = holders
            # Outside the mutex, so that the writers that are waited for can claim and store.
            time.sleep(_POLL_S)

    def add(self, completion: Completion) -> None:
        """Add a completion. Raises StoreError if it was not claimed, or was added before."""
        try:
            self._due[completion.problem_id].remove(completion.index)
        except KeyError:
            raise StoreError(
                f"sample {completion.index} of problem {completion.problem_id} was sampled twice "
                "or not requested"
            ) from None
        self._rows.append(completion)
        if len(self._rows) >= _FLUSH_ROWS or time.monotonic() - self._flushed_s > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Write the collected completions as one part."""
        rows, self._rows = self._rows, []
        if rows:
            # A process that was suspended for minutes may have lost its claim to another. Its rows
            # would be second texts of samples that are already stored.
            self._claims.require()
            token, number = self._claims.token, self._next_number
            part = write_part(self._folder, token, number, rows, self._provenance)
            self._next_number += 1
            self._on_stored([replace(row, part=part.name) for row in rows])
        self._flushed_s = time.monotonic()

    def _refresh(self) -> None:
        """Read the inventory again; set damaged parts aside."""
        self.inventory = refreshed(self._folder, self.inventory)
        for name in self.inventory.damaged:
            log.warning("%s is damaged; its samples are sampled again", self._folder / name)
            set_aside(self._folder / name)

    def _share(
        self, problem_ids: Sequence[str], n: int, others: Mapping[str, _Claim]
    ) -> tuple[dict[str, tuple[int, ...]], str]:
        """Return a chunk of missing, unclaimed samples, and the holders of the claimed ones."""
        missing = self.inventory.count_missing(problem_ids, n)
        # A claim is a compromise: small ones let writers that start later share the work, large
        # ones keep the engine's batch full.
        room = min(max(CHUNK, missing // 16), 16 * CHUNK)
        share: dict[str, tuple[int, ...]] = {}
        holders: set[str] = set()
        for problem_id in problem_ids if missing else ():
            free = set(self.inventory.missing(problem_id, n)) - self._not_delivered[problem_id]
            for claim in others.values():
                if not free.isdisjoint(claimed := claim.indices.get(problem_id, ())):
                    holders.add(claim.holder)
                    free.difference_update(claimed)
            if free:
                share[problem_id] = tuple(sorted(free)[:room])
                room -= len(share[problem_id])
            if room <= 0:
                break
        return share, " and ".join(sorted(holders))


@dataclass(frozen=True)
class SampleIdentity:
    """All that decides a completion's distribution; two sets with the same identity are one set.

    `model` is the fingerprint of the model, `template` the prompt template's hash, `sampling` the
    sampling parameters, `seed` the evaluation's. Engine and batch size are not part of it.
    """

    model: str
    template: str
    sampling: Mapping[str, Any]
    seed: int

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that name the set's folder."""
        return key_of(asdict(self))


def stored_seeds(root: Path, identity: SampleIdentity) -> list[SampleIdentity]:
    """Return the identities of the sets below `root` that are `identity` but for the seed."""
    # Through JSON and back, as the stored one has come: tuples are lists there.
    expected = json.loads(json.dumps(asdict(identity)))
    identities = []
    for file in sorted((root / "samples").glob(f"*/{DESCRIPTION}")):
        try:
            described = json_value(file.read_bytes())
        except (OSError, ValueError):  # corrupt: what it holds is not known
            continue
        if isinstance(described, dict) and {**described, "seed": identity.seed} == expected:
            identities.append(replace(identity, seed=described["seed"]))
    return sorted(identities, key=lambda of_seed: of_seed.seed)


class SampleSet:
    """The folder `<root>/samples/<key>/`: Parquet parts beside `set.json`.

    With `read_only`, reading changes neither the index nor a damaged part.
    """

    def __init__(self, root: Path, identity: SampleIdentity, *, read_only: bool = False) -> None:
        self.root, self.identity, self.read_only = root, identity, read_only
        self.folder = root / "samples" / identity.key
        self._known: Inventory | None = None

    def inventory(self) -> Inventory:
        """Return what the set holds; parts that the index lacks are read, damaged ones named.

        Raises StoreError if two parts hold different texts for one sample, or if `set.json`
        describes another set. Other files are ignored with a warning.
        """
        if self._known is None:
            self._is_described()
            name_strangers(self.folder, OWN_NAMES)
        earlier = self._known or load_index(self.folder)
        self._known = refreshed(self.folder, earlier)
        for name in self._known.damaged:
            warn_once(f"{self.folder / name} is damaged: its samples count as missing")
        if self._known.parts != earlier.parts and not self.read_only:
            write_index(self.folder, self._known)
        return self._known

    @property
    def engine(self) -> str | None:
        """The engines that sampled the set, such as `transformers 5.17.0`; None if it is empty."""
        names = (engine.get("engine", "") for engine in engines_of(self.folder))
        return ", ".join(dict.fromkeys(names)) or None

    def whole_inventory(self) -> Inventory:
        """Return the inventory for counts. Raises StoreError for a damaged part and sets it aside.

        In a set that is only read, damaged parts count as absent.
        """
        inventory = self.inventory()
        for name in () if self.read_only else inventory.damaged:
            self._read(name)
        return inventory

    def completions(
        self, problem_ids: Collection[str] | None = None, n: int | None = None
    ) -> Iterator[Completion]:
        """Yield the stored completions with index below `n` of these problems, part by part.

        Raises StoreError for a damaged part and sets it aside: a count over fewer samples would be
        wrong.
        """
        inventory = self.whole_inventory()
        for _, rows in self.read(inventory, inventory.select(problem_ids, n)):
            yield from rows

    def read(self, inventory: Inventory, mask_S: Mask) -> Iterator[tuple[Any, list[Completion]]]:
        """Yield row numbers and completions of the rows in `mask_S`, part by part."""
        # The rows of a part are adjacent in the inventory, so that `part_S` is sorted and each part
        # is read once.
        starts = np.searchsorted(inventory.part_S, np.arange(len(inventory.parts) + 1))
        for part in np.flatnonzero(np.bincount(inventory.part_S[mask_S])).tolist():
            within = np.flatnonzero(mask_S[starts[part] : starts[part + 1]])
            table = self._read(inventory.parts[part].name).take(as_column(within))
            name = inventory.parts[part].name
            yield starts[part] + within, list(completions_of(table, name))

    def _is_described(self) -> bool:
        """Return True if `set.json` describes this set, False if it is absent or corrupt.

        Raises StoreError if it describes another set.
        """
        try:
            described = json_value((self.folder / DESCRIPTION).read_bytes())
        except (OSError, ValueError):
            return False
        plain = json.loads(json.dumps(asdict(self.identity)))
        differing = [
            key
            for key in plain
            if not isinstance(described, dict) or described.get(key) != plain[key]
        ]
        # The folder's name is a hash of the identity, so this happens only to folders that were
        # renamed or edited by hand; counting another model's samples would be the worst of all
        # errors here.
        if differing:
            raise StoreError(
                f"{self.folder / DESCRIPTION} describes another set than its folder's: "
                f"{', '.join(differing)} differ",
                "move the folder elsewhere: its samples may be another model's",
            )
        return True

    def _read(self, name: str) -> Any:
        try:
            return read_part(self.folder / name)
        except DamagedPartError:
            set_aside(self.folder / name)
            raise

    @contextmanager
    def writing(
        self,
        provenance: Mapping[str, str],
        on_stored: Callable[[list[Completion]], None] = lambda _: None,
    ) -> Iterator[SampleWriter]:
        """Yield a writer; all added samples are on disk when the block ends, also by an error.

        `on_stored` is called with each part's completions once they are on disk.
        """
        claims = Claims(self.folder)
        with claims.registered():
            with claims.mutex(), storing(self.folder):
                # Under the mutex no writer can begin meanwhile, whose temporary file would be taken
                # for a leftover.
                claims.sweep()
                if not self._is_described():
                    write_json(self.folder / DESCRIPTION, asdict(self.identity))
                engines = engines_of(self.folder)
                if dict(provenance) not in engines:
                    write_object(self.folder / ENGINES, {"engines": [*engines, dict(provenance)]})
            earlier = self.inventory()
            writer = SampleWriter(self.folder, claims, earlier, provenance, on_stored)
            try:
                yield writer
            finally:
                writer.flush()
                # Also after an error: an interrupted evaluation has its samples on disk, and the
                # next one finds them in the index.
                self._known = writer.inventory
                if writer.inventory.parts != earlier.parts:
                    write_index(self.folder, writer.inventory)


def engines_of(folder: Path) -> list[dict[str, str]]:
    """Return the engines in `engines.json`; none if it is absent, or corrupt, which is named."""
    try:
        engines = read_object(folder / ENGINES, "remove it: the parts name their engines, too")
    except FileNotFoundError:
        return []
    except CorruptFileError as error:
        warn_of_corrupt_file(error)
        return []
    return list(engines.get("engines", ()))
