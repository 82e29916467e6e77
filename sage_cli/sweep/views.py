"""The view of a sweep's study that a driver works on."""

from __future__ import annotations

from sage_cli.sweep.cells import mean_scores, score
from sage_cli.sweep.prepared import Sweep
from sage_cli.sweep.space import Cell, cell_key
from sage_cli.sweep.study import Study


def open_study(sweep: Sweep) -> Study:
    """The view of the sweep's study that its space, sampler, objectives and seeds make.

    A new view begins with what earlier ones found.
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
    )
    there = {cell_key(one.cell) for one in study.proposals()}
    found: dict[object, tuple[Cell, list[tuple[float, ...]]]] = {}
    for cell, seed, _ in sweep.folder.ledger():
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
