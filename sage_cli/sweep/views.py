"""The view of a sweep's study that a driver works on."""

from __future__ import annotations

import socket

from sage_cli.store.identity import identity_of
from sage_cli.sweep.cells import mean_scores, score
from sage_cli.sweep.lease import Owner
from sage_cli.sweep.prepared import Sweep
from sage_cli.sweep.space import Cell, cell_key
from sage_cli.sweep.study import Study


def open_study(sweep: Sweep) -> Study:
    """The view of the sweep's study that its space, sampler, objectives and seeds make.

    A new view begins with what earlier ones found. It is to be closed.
    """
    settings = sweep.config.sweep
    study = Study.open(
        settings.storage or sweep.folder.path,
        sweep.folder.name,
        sweep.space,
        sweep.sampler,
        settings.seed,
        settings.objective,
        {"seeds": settings.seeds, "race": settings.race, "prune": settings.prune},
        _owner(sweep),
    )
    there = {cell_key(one.cell) for one in study.proposals()}
    found: dict[object, tuple[Cell, list[tuple[float, ...]]]] = {}
    sweep.folder.ledger.mend()
    for cell, seed in ((entry.cell, entry.seed) for entry in sweep.folder.ledger.entries()):
        if cell_key(cell) in there or cell not in sweep.space or seed not in sweep.first_seeds:
            continue
        counts = sweep.cells.trained(sweep.cells.training(cell, seed))
        if counts is not None:
            scores = found.setdefault(cell_key(cell), (cell, []))[1]
            scores.append(score(settings.objectives, counts))
    for cell, scores in found.values():
        if len(scores) == len(sweep.first_seeds):
            study.known(cell, mean_scores(scores), source="an earlier view of this sweep")
    return study


def _owner(sweep: Sweep) -> Owner:
    """The sweep's folder, as a study in a database knows it."""
    recipe = identity_of("sweep", sweep.determinants)[:8]
    folder = sweep.folder
    return Owner(folder.mark(), str(folder.path.resolve()), recipe, socket.gethostname())
