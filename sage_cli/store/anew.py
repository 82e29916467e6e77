"""Training a run anew (`--fresh`): the new one grows beside the old, and takes its place finished.

Until then the old one is what every other command sees. A kill at any moment leaves either the old
one or the new one whole; `current` finds what is to go on.
"""

from __future__ import annotations

import shutil

from sage_cli.store.lock import LAUNCHER, writer
from sage_cli.store.run import Run


def begin_anew(run: Run) -> Run:
    """The empty run to train in place of `run`: `run` itself where there is nothing to keep.

    An earlier attempt is forgotten. Raises StoreError while somebody is writing either.
    """
    run.anew.clear()
    if not run.begun:
        run.clear()
        return run
    with writer(run.folder), writer(run.folder, LAUNCHER):
        run.anew.folder.mkdir(parents=True)
    return run.anew


def current(run: Run) -> Run:
    """The run to go on with: `run`, or the one that was begun anew in its place.

    Raises TornError where its manifest or its configuration can't be read.
    """
    if not run.anew.folder.is_dir():
        run.require_whole()
        return run
    run.anew.require_whole()
    return settled(run.anew) if run.anew.finished else run.anew


def settled(run: Run) -> Run:
    """`run`, finished, in the place that it was begun anew for; one that is there stays."""
    place = Run(run.folder.parent.parent / run.id, run.planned)
    if place.anew != run:
        return run
    with writer(run.folder):
        aside = place.set_aside() if place.folder.is_dir() else None
        run.folder.rename(place.folder)
    if aside is not None:
        shutil.rmtree(aside, ignore_errors=True)
    return place
