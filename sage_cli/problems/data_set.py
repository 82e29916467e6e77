"""A published data set or a group of them, as the registry declares it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sage_cli.problems.golds import GoldRule

_Columns = tuple[str, ...]


@dataclass(frozen=True)
class DataSet:
    """A published data set.

    `files` are its local copies below the data folder, all of them needed. `question` and `gold`
    list alternatives, the first whose columns are there counts, because mirrors name columns
    differently; several question columns are joined by a space. `count` is the number of
    problems that a complete copy has; None where copies differ. `revision` is a commit of the
    Hub data set, which `data.revisions` overrides; None takes the newest, and the commit that was
    read is recorded.
    """

    name: str
    title: str
    hub: str
    splits: tuple[str, ...]
    files: tuple[str, ...]
    question: tuple[_Columns, ...]
    gold: tuple[tuple[str, GoldRule], ...]
    config: str | None = None
    revision: str | None = None
    working: str | None = None
    where: tuple[str, Any] | None = None
    count: int | None = None
    judge: str = "math"
    tolerance: float | None = None
    training: bool = False
    rows: tuple[int, int] | None = None
    """The first and the last row that belong to it, counted from 1; None for all."""
    part_of: str | None = None
    """Problems carry this data set's name in their ids, so that both share their samples."""

    def pinned(self, revisions: Mapping[str, str]) -> DataSet:
        """Return it at the revision that its own name, or that of the whole, has in `revisions`."""
        whole = revisions.get(self.part_of or self.name, self.revision)
        return replace(self, revision=revisions.get(self.name, whole))

    def at(self, split: str) -> DataSet:
        """Return the same columns of another split, without a local copy or a count."""
        return replace(self, splits=(split,), files=(), count=None)


@dataclass(frozen=True)
class Group:
    """Several data sets reported as one benchmark."""

    name: str
    title: str
    members: tuple[str, ...]
    count: int | None = None
    training: bool = field(default=False, init=False)
