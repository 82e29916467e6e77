"""Replacement of runs (`--fresh`): a new run is trained beside the old and then takes its place.

Until then every other command sees the old run. A kill at any moment leaves one of the two whole;
`current` returns the run to resume.
"""

from __future__ import annotations

import shutil

from sage_cli.store.lock import LAUNCHER, writer
from sage_cli.store.runs.run import Run


def stage_replacement(run: Run) -> Run:
    """Return the empty run to train in place of `run`, which is `run` itself if it was not begun.

    An earlier replacement is deleted. Raises StoreError while a process writes either run.
    """
    run.replacement.clear()
    if not run.begun:
        run.clear()
        return run
    with writer(run.folder), writer(run.folder, LAUNCHER):
        run.replacement.folder.mkdir(parents=True)
    return run.replacement


def current(run: Run) -> Run:
    """Return the run to resume: `run`, or the replacement that was staged for it.

    Raises TornError if its manifest or its configuration cannot be read.
    """
    if not run.replacement.folder.is_dir():
        run.require_whole()
        return run
    run.replacement.require_whole()
    return settled(run.replacement) if run.replacement.finished else run.replacement


def settled(run: Run) -> Run:
    """Move the finished replacement `run` into place and return it; any other run is returned."""
    target = Run(run.folder.parent.parent / run.id, run.planned)
    if target.replacement != run:
        return run
    with writer(run.folder):
        aside = target.set_aside() if target.folder.is_dir() else None
        run.folder.rename(target.folder)
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)
    return target
