"""The study: which cells were proposed, what became of each, and what is proposed next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sage_cli.sweep.proposal import Proposal
from sage_cli.sweep.space import Cell, Space


class Study:
    """One view of a sweep, kept by Optuna. One driver writes at a time; anybody may read."""

    name: str
    space: Space
    objectives: tuple[str, ...]

    @classmethod
    def open(
        cls,
        place: Path | str,
        sweep: str,
        space: Space,
        sampler: str,
        seed: int,
        objectives: Sequence[str],
        determinants: Mapping[str, Any] | None = None,
    ) -> Study:
        """The driver's own: `place` is the sweep's folder, or a database's URL.

        The view's name is `<sweep>/<8 hex>`, told by everything else that is given. Proposals that
        an earlier driver left running are still running; cells that failed for it are proposed
        again before any other.
        """

    @classmethod
    def read(cls, place: Path | str, name: str) -> Study:
        """A stored view, to be looked at, without writing anything; `studies` lists the names."""

    def running(self) -> list[Proposal]: ...

    def propose(self) -> Proposal | None:
        """The next new cell, now running; None where there is none left, or none was found."""

    def tell(self, proposal: Proposal, values: Sequence[float]) -> None: ...

    def fail(self, proposal: Proposal, failure: str, reason: str) -> None: ...

    def prune(self, proposal: Proposal, reason: str, step: int) -> None: ...

    def report(self, proposal: Proposal, step: int, values: Sequence[float]) -> None: ...

    def note(self, proposal: Proposal, **attrs: Any) -> None: ...

    def known(self, cell: Cell, values: Sequence[float], **attrs: Any) -> bool:
        """Enter a result from elsewhere; False where the space doesn't hold the cell, or has it."""

    def proposals(self) -> list[Proposal]:
        """Every cell once, in the order of their first proposals."""

    def importances(self) -> dict[str, dict[str, float]]:
        """Share of each parameter (by short name) in each objective's variance; {} for few."""


def studies(place: Path | str) -> list[str]:
    """Names of the views stored at `place`."""
