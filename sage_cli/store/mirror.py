"""Mirrors of a run's own files: a mirror can fail or be rebuilt, the files stay authoritative."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from sage_cli.store.evaluations import evaluation_figures
from sage_cli.store.run import Run
from sage_cli.store.sweep_figures import sweep_figures

log = logging.getLogger(__name__)
Record = Mapping[str, Any]


class Mirror(Protocol):
    """Another program's picture of one run. Every method may raise anything."""

    @property
    def name(self) -> str:
        """What the program is called."""
        ...

    def open(self, trained_from: int | None) -> None:
        """Begin the picture; one of this run that lies on the disk is replaced.

        `trained_from` is the first step that is trained now, None where nothing is trained: what
        the picture holds from there on is of an interrupted training, and void.
        """

    def log(self, record: Record, rollouts: Sequence[Record]) -> None:
        """Add an optimiser step's metrics, and the completions that were kept of it."""

    def summarise(self, figures: Mapping[str, Any]) -> None:
        """Set what later evaluations measured, by names as `eval/<benchmark>/pass@1`.

        A sweep's cell has its settings and objectives too, as `sweep/guide.tau`, `sweep/pass@1`.
        """

    def close(self) -> None:
        """Finish the picture."""


class Follower:
    """Keeps a mirror up with a run; one that fails is given up with one warning.

    Opening replays the run's files, so that a resumed run's mirror holds every step too.
    """

    def __init__(self, mirror: Mirror, run: Run) -> None:
        self._mirror, self._run = mirror, run
        self._opened = self._failed = False

    def log(self, record: Record) -> None:
        """Mirror a step that the run's files already hold."""
        if self._opened:
            self._attempt(lambda: self._mirror.log(record, self._run.rollouts.last(record["step"])))
        else:
            self._attempt(lambda: self._replay(record["step"]))

    def show_evaluations(self) -> None:
        """Mirror what evaluations found; one that isn't open is made anew from the run's files."""
        if self._opened:
            self._attempt(self._summarise)
        else:
            self._attempt(lambda: self._replay(None))
            self.close()

    def close(self) -> None:
        """Finish the mirror, if it was ever begun."""
        if self._opened:
            self._attempt(self._mirror.close)

    def _replay(self, trained_from: int | None) -> None:
        self._mirror.open(trained_from)
        self._opened = True
        rollouts: defaultdict[int, list[Record]] = defaultdict(list)
        for row in self._run.rollouts.read():
            rollouts[row["step"]].append(row)
        for record in self._run.metrics.read():
            self._mirror.log(record, rollouts[record["step"]])
        self._summarise()

    def _summarise(self) -> None:
        evaluations = evaluation_figures(self._run)
        if figures := {**evaluations, **sweep_figures(self._run, evaluations)}:
            self._mirror.summarise(figures)

    def _attempt(self, action: Callable[[], None]) -> None:
        if self._failed:
            return
        try:
            action()
        except Exception as error:  # whatever a mirror does, the work it shows goes on
            self._failed = True
            name, run = self._mirror.name, self._run.id
            log.warning("%s stopped mirroring %s: %s; metrics.jsonl is whole", name, run, error)
