"""Sample sets: every completion drawn for one model, template, sampling setting and seed."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sage_cli.errors import StoreError
from sage_cli.store.atomic import write_json
from sage_cli.store.completion import Completion
from sage_cli.store.lock import writer
from sage_cli.store.parts import part_number, read_part, write_part

FLUSH_ROWS = 512
FLUSH_S = 5.0


@dataclass(frozen=True)
class SampleIdentity:
    """What decides a completion's distribution; two sets with the same identity are one set.

    `model` is the model's fingerprint, `template` the prompt template's hash, `sampling` the
    sampling parameters with the seed. How samples are computed (engine, batch) is not part of it.
    """

    model: str
    template: str
    sampling: Mapping[str, Any]

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that name the set's folder."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


@dataclass
class Inventory:
    """Which samples a set holds (a mask over indices per problem), and its damaged parts."""

    held_by_problem: dict[str, np.ndarray[Any, np.dtype[np.bool_]]] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()

    def missing(self, problem_id: str, n: int) -> tuple[int, ...]:
        """Indices below `n` that the set doesn't hold for a problem, ascending."""
        held_N = np.zeros(n, dtype=bool)
        stored_N = self.held_by_problem.get(problem_id, held_N)[:n]
        held_N[: len(stored_N)] = stored_N
        return tuple(np.flatnonzero(~held_N).tolist())

    def add(self, problem_id: str, index: int) -> bool:
        """Note a sample; False when the set already holds it."""
        held_N = self.held_by_problem.get(problem_id)
        if held_N is None or index >= len(held_N):
            grown_N = np.zeros(max(64, 2 * index + 1), dtype=bool)
            if held_N is not None:
                grown_N[: len(held_N)] = held_N
            held_N = self.held_by_problem[problem_id] = grown_N
        fresh = not held_N[index]
        held_N[index] = True
        return fresh


class SampleSet:
    """The folder `<root>/samples/<key>/`: numbered Parquet parts beside `set.json`."""

    def __init__(self, root: Path, identity: SampleIdentity) -> None:
        self.identity = identity
        self.folder = root / "samples" / identity.key

    def parts(self) -> list[Path]:
        """The parts in the order of writing."""
        return sorted(self.folder.glob("part-*.parquet"), key=part_number)

    def inventory(self) -> Inventory:
        """Read every part's keys; damaged parts are named and count as absent."""
        inventory, damaged = Inventory(), []
        for part in self.parts():
            try:
                keys = read_part(part, columns=["problem_id", "index"])
            except StoreError:
                damaged.append(part.name)
                continue
            for problem_id, index in zip(*keys.to_pydict().values(), strict=True):
                inventory.add(problem_id, index)
        inventory.damaged = tuple(damaged)
        return inventory

    def completions(
        self, problem_ids: Collection[str] | None = None, n: int | None = None
    ) -> Iterator[Completion]:
        """Stream the stored completions with index below `n` of the given problems, part by part.

        Raises StoreError at a damaged part: a count over fewer samples would be a wrong number.
        """
        wanted = None if problem_ids is None else frozenset(problem_ids)
        for part in self.parts():
            for row in read_part(part).to_pylist():
                if (wanted is None or row["problem_id"] in wanted) and (
                    n is None or row["index"] < n
                ):
                    yield Completion(**row)

    @contextmanager
    def writing(
        self,
        provenance: Mapping[str, str],
        on_stored: Callable[[list[Completion]], None] = lambda _: None,
    ) -> Iterator[SampleWriter]:
        """Be the one writer; what was added is on disk when the block is left, by error too.

        `on_stored` is called with each part's completions once they are on disk.
        """
        with writer(self.folder):
            write_json(self.folder / "set.json", asdict(self.identity))
            for leftover in self.folder.glob(".*.tmp"):
                leftover.unlink()
            samples = SampleWriter(self, provenance, on_stored)
            try:
                yield samples
            finally:
                samples.flush()


class SampleWriter:
    """Collects completions and writes them as parts of some hundred rows or some seconds."""

    def __init__(
        self,
        samples: SampleSet,
        provenance: Mapping[str, str],
        on_stored: Callable[[list[Completion]], None],
    ) -> None:
        self.inventory = samples.inventory()
        self._folder, self._provenance, self._on_stored = samples.folder, provenance, on_stored
        numbers = [part_number(path) for path in self._folder.glob("part-*")]
        self._next_number = max(numbers, default=-1) + 1
        self._rows: list[Completion] = []
        self._flushed_s = time.monotonic()
        for name in self.inventory.damaged:
            (self._folder / name).rename(self._folder / f"{name}.damaged")

    def add(self, completion: Completion) -> None:
        """Take one completion; refused when the set already holds its index."""
        if not self.inventory.add(completion.problem_id, completion.index):
            raise StoreError(
                f"sample {completion.index} of problem {completion.problem_id} was drawn twice"
            )
        self._rows.append(completion)
        if len(self._rows) >= FLUSH_ROWS or time.monotonic() - self._flushed_s > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Put what was collected on disk as one part."""
        rows, self._rows = self._rows, []
        if rows:
            write_part(self._folder, self._next_number, rows, self._provenance)
            self._next_number += 1
            self._on_stored(rows)
        self._flushed_s = time.monotonic()
