"""The study: which cells were proposed, what became of each, and what is proposed next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from numpy.random import default_rng
from optuna.samplers import BaseSampler

from sage_cli.errors import StoreError
from sage_cli.store.identity import identity_of
from sage_cli.sweep.lease import Lease, Owner
from sage_cli.sweep.optuna_space import OptunaSpace, ordered_lists
from sage_cli.sweep.proposal import Proposal, State
from sage_cli.sweep.samplers import sampler
from sage_cli.sweep.space import Cell, Space, cell_key, from_plain
from sage_cli.sweep.storage import open_storage, patiently
from sage_cli.sweep.trials import REPEATS, WITHDRAWN, Trials

PATIENCE = 25
"""How often in a row a sampler may propose what is known before it is no longer asked."""


class Study:
    """One view of a sweep, kept by Optuna. One driver writes at a time; anybody may read.

    `name` is `<sweep>/<8 hex>`; `failed` are the proposals that failed for an earlier driver and
    wait to be proposed again; `before` is who drove it last, if that was from another folder.
    """

    def __init__(self, place: Path | str, study: optuna.Study) -> None:
        about = study.user_attrs
        self.name = study.study_name
        self.space: Space = from_plain(about["space"])
        self.objectives: tuple[str, ...] = tuple(about["objectives"])
        self.sampler: str = about["sampler"]
        self.seed: int = about["seed"]
        self._optuna_space = OptunaSpace(self.space, about.get("ordered", ()))
        self._trials = Trials(place, study, self._optuna_space)
        self.failed: list[Proposal] = []
        self.lease: Lease | None = None
        self.before: Owner | None = None

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
        owner: Owner | None = None,
    ) -> Study:
        """The driver's own: `place` is the sweep's folder, or a database's URL.

        The view is told by everything that is given but `place`; `determinants` are whatever else
        decides the values. In a database it is held for `owner` until `close`. Proposals that an
        earlier driver left running still run; cells that failed for it are proposed again before
        any other.
        """
        about = {
            "space": space.plain(),
            "sampler": sampler,
            "seed": seed,
            "objectives": list(objectives),
        }
        if ordered := ordered_lists(space, sampler):  # the trials of others have values in them
            about["ordered"] = ordered
        identity = identity_of("study", {**about, "determinants": determinants or {}})
        storage = open_storage(place, write=True)

        def opened() -> optuna.Study:
            study = optuna.create_study(
                study_name=f"{sweep}/{identity[:8]}",
                storage=storage,
                directions=["maximize"] * len(objectives),
                load_if_exists=True,
            )
            for name in about.keys() - study.user_attrs.keys():
                study.set_user_attr(name, about[name])
            if study.metric_names is None:
                study.set_metric_names(list(objectives))
            return study

        study = patiently(place, opened)
        found = cls(place, study)
        if isinstance(place, str) and owner is not None:
            lease = Lease(study, owner, lambda operation: patiently(place, operation))
            found.before = lease.take()
            found.lease = lease
        found._trials.tidy()
        found.failed = [one for one in found.proposals() if one.state is State.FAILED]
        return found

    @classmethod
    def read(cls, place: Path | str, name: str) -> Study:
        """A stored view, to be looked at; `studies` lists the names.

        Raises StoreError where there is none of that name.
        """
        storage = open_storage(place, write=False)
        try:
            found = patiently(place, lambda: optuna.load_study(study_name=name, storage=storage))
        except KeyError:
            raise StoreError(f"there is no study '{name}'") from None
        return cls(place, found)

    def close(self) -> None:
        """Let another driver have the study."""
        if self.lease is not None:
            self.lease.drop()

    def proposals(self) -> list[Proposal]:
        """Every cell once, in the order of their first proposals, with the latest that it led to.

        A result counts more than what failed after it.
        """
        return self._trials.proposals()

    def running(self) -> list[Proposal]:
        """What was proposed and has no end yet, by this driver or an earlier one."""
        return [one for one in self.proposals() if one.state is State.RUNNING]

    def propose(self) -> Proposal | None:
        """The next new cell, now running; None where there is none left, or none was found.

        What a sampler proposes again is told what is known of it, and the sampler asked again;
        where it doesn't get away from that, one of the cells that are left is drawn at random.
        """
        self._require_held()
        if self.failed:
            failed = self.failed.pop(0)
            return self._trials.begin(failed.cell, {"again": failed.number})
        met = {cell_key(one.cell): one for one in self.proposals()}
        while self._trials.enqueued():  # by somebody who has a cell in mind
            proposed = self._trials.ask(self._sampler())
            known = met.get(cell_key(proposed.cell))
            if known is None:
                return proposed
            self._repeat(proposed, known)
        left = self._left(met)
        if left == []:
            return None
        if left and self.sampler == "grid":
            tried = set(map(cell_key, self._trials.withdrawn()))
            return self._trials.begin(min(left, key=lambda cell: cell_key(cell) in tried), {})
        for _ in range(PATIENCE):
            proposed = self._trials.ask(self._sampler())
            known = met.get(cell_key(proposed.cell))
            if known is None:
                return proposed
            self._repeat(proposed, known)
        if left is None:
            return None
        return self._trials.begin(left[default_rng([self.seed, len(met)]).integers(len(left))], {})

    def tell(self, proposal: Proposal, values: Sequence[float]) -> None:
        """The proposal is done, with these values of the objectives."""
        self._require_held()
        if len(values) != len(self.objectives) or not all(map(math.isfinite, values)):
            raise ValueError(f"{', '.join(self.objectives)} can't be {list(values)}")
        self._trials.complete(proposal, values)

    def fail(self, proposal: Proposal, failure: str, reason: str) -> None:
        """The proposal has no values: the class of its failure, and what happened."""
        self._require_held()
        self._trials.note(proposal, {"failure": failure, "reason": reason})
        self._trials.close(proposal)

    def withdraw(self, proposal: Proposal, failure: str, reason: str) -> None:
        """The proposal counts as never made: what was in its way lay outside the cell.

        Samplers are asked anew, and a grid has its cell after those that nobody tried.
        """
        self._require_held()
        self._trials.note(proposal, {WITHDRAWN: True, "failure": failure, "reason": reason})
        self._trials.close(proposal)

    def prune(self, proposal: Proposal, reason: str, step: int) -> None:
        """The proposal was ended at a step because it lagged."""
        self._require_held()
        self._trials.note(proposal, {"reason": reason, "step": step})
        self._trials.close(proposal, pruned=True)

    def report(self, proposal: Proposal, step: int, values: Sequence[float]) -> None:
        """The objectives at a step of the proposal's training."""
        self._trials.report(proposal, step, values)

    def note(self, proposal: Proposal, **attrs: Any) -> None:
        """Keep something about a proposal that has no end yet, in JSON's types."""
        self._trials.note(proposal, attrs)

    def known(self, cell: Cell, values: Sequence[float], source: str, **attrs: Any) -> bool:
        """Enter a result from elsewhere, so that samplers learn from it; `source` says from where.

        False, and nothing is entered, where the space doesn't hold the cell, or the study has a
        result of it or waits for one.
        """
        states = {cell_key(one.cell): one.state for one in self.proposals()}
        if cell not in self.space or states.get(cell_key(cell)) in (State.DONE, State.RUNNING):
            return False
        self._trials.enter(cell, values, {"source": source, **attrs})
        self.failed = [one for one in self.failed if cell_key(one.cell) != cell_key(cell)]
        return True

    def importances(self) -> dict[str, dict[str, float]]:
        """By objective, how much each parameter (by short name) matters to being among the best.

        Shares that add up to 1, by Optuna's PED-ANOVA. Empty for an objective with fewer than four
        results, or with equal ones.
        """
        done = [one.values for one in self.proposals() if one.values is not None]
        names = self.space.keys
        found: dict[str, dict[str, float]] = {}
        for place, objective in enumerate(self.objectives):
            varied = len(done) >= 4 and len({values[place] for values in done}) > 1
            shares = self._trials.importances(place) if varied else {}
            found[objective] = {name: shares[name] for name in names if name in shares}
        return found

    def _require_held(self) -> None:
        """Raise StoreError where another driver has taken the study over."""
        if self.lease is not None:
            self.lease.require()

    def _sampler(self) -> BaseSampler:
        withdrawn = len(self._trials.withdrawn())
        counted = self._trials.asked()
        return sampler(self.sampler, self.seed, counted, withdrawn, self._optuna_space)

    def _left(self, met: Mapping[Any, Proposal]) -> list[Cell] | None:
        """The cells that nobody has met; None where there are too many to list."""
        cells = list(self.space.cells()) if self.sampler == "grid" else self.space.listed()
        return None if cells is None else [cell for cell in cells if cell_key(cell) not in met]

    def _repeat(self, proposed: Proposal, known: Proposal) -> None:
        self._trials.note(proposed, {REPEATS: known.number})
        if known.values is None:
            self._trials.close(proposed)
        else:
            self._trials.complete(proposed, known.values)


def studies(place: Path | str) -> list[str]:
    """Names of the views stored at `place`."""
    storage = open_storage(place, write=False)
    return patiently(place, lambda: sorted(optuna.get_all_study_names(storage)))
