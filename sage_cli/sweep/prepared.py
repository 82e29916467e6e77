"""A sweep before anything runs: what it searches, how, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sage_cli.config.schema import SageConfig
from sage_cli.config.sweep import SweepSection
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.sweep.cells import Cells
from sage_cli.sweep.folder import SweepFacts, SweepFolder
from sage_cli.sweep.read import read_space
from sage_cli.sweep.sampler_choice import choose_sampler
from sage_cli.sweep.shared import shared_config, sweep_folder, sweep_name, sweep_settings
from sage_cli.sweep.space import Space

if TYPE_CHECKING:
    from sage_cli.sweep.study import Study

TRIALS = 30
"""Cells that a sampler chooses where nothing else is said; a grid has all of its own."""


@dataclass(frozen=True)
class Sweep:
    """Space, sampler, how many cells, and where the sweep's memory is."""

    config: SageConfig
    space: Space
    sampler: str
    total: int
    cells: Cells
    folder: SweepFolder

    @property
    def settings(self) -> SweepSection:
        """The sweep's section with as many trials as there are to be; a grid ends by itself."""
        trials = None if self.sampler == "grid" else self.total
        return self.config.sweep.model_copy(update={"trials": trials})

    @property
    def first_seeds(self) -> range:
        """The trainings that every cell has; a race gives further ones to some."""
        return range(1 if self.config.sweep.race else self.config.sweep.seeds)

    @property
    def determinants(self) -> dict[str, Any]:
        """What decides the cells' results besides what is searched."""
        return sweep_settings(self.cells.shared, self.space.keys)

    def facts(self, study: Study) -> SweepFacts:
        """What readers of the sweep's state want to know beside its counts."""
        return {
            "name": self.folder.name,
            "space": self.space.plain(),
            "sampler": self.sampler,
            "objectives": list(self.config.sweep.objective),
            "storage": self.config.sweep.storage,
            "view": study.name,
        }


def prepared(config: SageConfig) -> Sweep:
    """What a configuration's sweep is, everything checked that needs no training."""
    settings, space = config.sweep, read_space(config.sweep.space, config)
    sampler = choose_sampler(settings.sampler, space, settings.objective)
    shared = shared_config(config)
    name = sweep_name(shared, space.keys)
    benchmarks = load_benchmarks(shared.evaluation, shared.data)
    folder = SweepFolder(sweep_folder(config.run.root, name))
    known = list(space.cells()) if sampler == "grid" else space.listed()
    wanted = None if sampler == "grid" else settings.trials or TRIALS
    counts = (wanted, None if known is None else len(known))
    total = min(count for count in counts if count is not None)
    return Sweep(config, space, sampler, total, Cells(shared, name, benchmarks), folder)
