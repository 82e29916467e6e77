"""One of the writers of a sample set: claims what is missing, and writes what was drawn."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sage_cli.errors import StoreError
from sage_cli.store.claims import Claim, Claims
from sage_cli.store.completion import Completion
from sage_cli.store.index import brought_up_to_date
from sage_cli.store.inventory import Inventory
from sage_cli.store.parts import part_number, set_aside, write_part

FLUSH_ROWS = 512
FLUSH_S = 5.0
CHUNK = 4096
"""Samples that a writer claims at once; a sixteenth of what is missing where that is more, up to
sixteen times as many: an engine runs empty at the end of each."""
POLL_S = 0.5

log = logging.getLogger(__name__)


class SampleWriter:
    """Collects completions and writes them as parts of some hundred rows or some seconds.

    `inventory` is what the set held when this writer looked last, `damaged` the parts that it set
    aside. `chunk` samples are claimed at once, or else `CHUNK`.
    """

    def __init__(
        self,
        folder: Path,
        claims: Claims,
        inventory: Inventory,
        provenance: Mapping[str, str],
        on_stored: Callable[[list[Completion]], None],
        chunk: int | None = None,
    ) -> None:
        self.inventory = inventory
        self.damaged: tuple[str, ...] = ()
        self._folder, self._claims = folder, claims
        self._provenance, self._on_stored = provenance, on_stored
        self._chunk = chunk
        numbers = (part_number(part.name) for part in inventory.parts)
        self._next_number = max(numbers, default=-1) + 1
        self._rows: list[Completion] = []
        self._flushed_s = time.monotonic()
        self._due: dict[str, set[int]] = {}
        self._not_delivered: defaultdict[str, set[int]] = defaultdict(set)

    def claim(self, problem_ids: Sequence[str], n: int) -> dict[str, tuple[int, ...]]:
        """Samples below `n`, by problem, that this writer is to draw next; none when all are there.

        What another living writer has claimed is left to it; when nothing else is missing this
        waits until it is there, or that writer is gone. What was claimed before and not added is
        not claimed again.
        """
        self.flush()
        for problem_id, indices in self._due.items():
            self._not_delivered[problem_id] |= indices
        awaited = ""
        while True:
            with self._claims.mutex():
                others = self._claims.others()
                self._look()
                free, holders = self._share(problem_ids, n, others)
                self._claims.take(free)
            self._due = {problem_id: set(indices) for problem_id, indices in free.items()}
            if free or not holders:
                return free
            # engines of one owner, who are told their chunk, expect each other at the end
            if holders != awaited and self._chunk is None:
                log.warning("waiting for samples that %s is drawing", holders)
                awaited = holders
            time.sleep(POLL_S)

    def add(self, completion: Completion) -> None:
        """Take one completion; refused unless it was claimed, and when it comes twice."""
        try:
            self._due[completion.problem_id].remove(completion.index)
        except KeyError:
            raise StoreError(
                f"sample {completion.index} of problem {completion.problem_id} was drawn twice, "
                "or without being asked for"
            ) from None
        self._rows.append(completion)
        if len(self._rows) >= FLUSH_ROWS or time.monotonic() - self._flushed_s > FLUSH_S:
            self.flush()

    def flush(self) -> None:
        """Put what was collected on disk as one part."""
        rows, self._rows = self._rows, []
        if rows:
            self._claims.require()
            token, number = self._claims.token, self._next_number
            part = write_part(self._folder, token, number, rows, self._provenance)
            self._next_number += 1
            self._on_stored([replace(row, part=part.name) for row in rows])
        self._flushed_s = time.monotonic()

    def _look(self) -> None:
        """See which samples are there by now; set damaged parts aside."""
        self.inventory = brought_up_to_date(self._folder, self.inventory)
        for name in self.inventory.damaged:
            log.warning("%s is damaged; its samples are drawn again", self._folder / name)
            set_aside(self._folder / name)
        self.damaged += self.inventory.damaged

    def _share(
        self, problem_ids: Sequence[str], n: int, others: Mapping[str, Claim]
    ) -> tuple[dict[str, tuple[int, ...]], str]:
        """A chunk of what is missing and free, and who has claimed what was passed over."""
        missing = self.inventory.count_missing(problem_ids, n)
        room = self._chunk or min(max(CHUNK, missing // 16), 16 * CHUNK)
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
