"""The writer of a sample set, which takes samples by claims."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sage_cli.errors import StoreError
from sage_cli.store.claims import Claims, SampleClaim
from sage_cli.store.completion import Completion
from sage_cli.store.inventory import Inventory
from sage_cli.store.inventory_index import refreshed
from sage_cli.store.sample_parts import (
    part_number,
    set_aside,
    write_part,
)

_FLUSH_ROWS = 512
FLUSH_S = 5.0
CHUNK = 4096
"""Samples in a claim; a sixteenth of the missing ones if that is more, up to sixteen times as many:
an engine runs empty at the end of each claim."""
_POLL_S = 0.5
log = logging.getLogger(__name__)


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
        self, problem_ids: Sequence[str], n: int, others: Mapping[str, SampleClaim]
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
