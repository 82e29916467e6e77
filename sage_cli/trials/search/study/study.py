"""The study: its trials, what became of each, and the next one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import optuna
from numpy.random import default_rng
from optuna.pruners import BasePruner, NopPruner

from sage_cli.store.identity import identity_of
from sage_cli.trials.search.lease import Lease, Owner
from sage_cli.trials.search.space.space import Point, Space, point_key
from sage_cli.trials.search.study.optuna_space import OptunaSpace, ordered_lists
from sage_cli.trials.search.study.samplers import INFEASIBLE, sampler
from sage_cli.trials.search.study.storage import open_storage, patiently
from sage_cli.trials.search.study.stored_trials import REPEATS, WITHDRAWN, StoredTrials
from sage_cli.trials.search.study.study_trial import State, StudyTrial

PATIENCE = 25
"""How often in a row a sampler may propose a known point before it is no longer asked."""


class Study(StoredTrials):
    """One view of a sweep, kept by Optuna. One driver writes at a time; anybody may read.

    `name` is `<sweep>/<8 hex>`; `failed` are the trials that failed for an earlier driver and wait
    to be repeated; `before` is who drove it last, if that was from another folder.
    """

    def __init__(self, place: Path | str, study: optuna.Study, space: OptunaSpace) -> None:
        super().__init__(place, study, space)
        about = study.user_attrs
        self.name = study.study_name
        self.space = space.space
        self.objectives: tuple[str, ...] = tuple(about["objectives"])
        self.sampler: str = about["sampler"]
        self.seed: int = about["seed"]
        self.failed: list[StudyTrial] = []
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
        pruner: BasePruner | None = None,
    ) -> Study:
        """The driver's own: `place` is the sweep's folder, or a database's URL.

        The view is named by all arguments but `place`; `determinants` are whatever else decides
        the values. In a database `owner` holds a lease on it until `close`. Trials that an earlier
        driver left running still run; points that failed for it are proposed before any other.
        """
        about = {
            "space": space.plain(),
            "sampler": sampler,
            "seed": seed,
            "objectives": list(objectives),
        }
        ordered = ordered_lists(space, sampler)
        if ordered:  # the trials of others have values in them
            about["ordered"] = ordered
        identity = identity_of("study", {**about, "determinants": determinants or {}})
        storage = open_storage(place)

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
        study.pruner = pruner or NopPruner()
        found = cls(place, study, OptunaSpace(space, ordered))
        if isinstance(place, str) and owner is not None:
            lease = Lease(study, owner, lambda operation: patiently(place, operation))
            found.before = lease.take()
            found.lease = lease
        found.tidy()
        found.failed = [one for one in found.trials() if one.state is State.FAILED]
        return found

    def close(self) -> None:
        """Release the study for another driver."""
        if self.lease is not None:
            self.lease.drop()

    def running(self) -> list[StudyTrial]:
        """The trials that have not ended, of this driver or an earlier one."""
        return [one for one in self.trials() if one.state is State.RUNNING]

    def propose(self) -> StudyTrial | None:
        """The next new trial, now running; None if no point is left, or none was found.

        If a sampler proposes a known point, it is told the result and asked again. After PATIENCE
        such proposals a random one of the points that are left is taken.
        """
        self._require_held()
        if self.failed:
            failed = self.failed.pop(0)
            return self.begin(failed.point, {"again": failed.number})
        met = {point_key(one.point): one for one in self.trials()}
        while self.enqueued():  # by a user who wants a point
            if (proposed := self._asked(met)) is not None:
                return proposed
        left = self._left(met)
        if left == []:
            return None
        if left and self.sampler == "grid":
            tried = set(map(point_key, self.withdrawn()))
            return self.begin(min(left, key=lambda point: point_key(point) in tried), {})
        for _ in range(PATIENCE):
            if (proposed := self._asked(met)) is not None:
                return proposed
        if left is None:
            return None
        return self.begin(left[default_rng([self.seed, len(met)]).integers(len(left))], {})

    def tell(self, trial: StudyTrial, values: Sequence[float]) -> None:
        """End a trial with these values of the objectives."""
        self._require_held()
        if len(values) != len(self.objectives) or not all(map(math.isfinite, values)):
            raise ValueError(f"{', '.join(self.objectives)} cannot be {list(values)}")
        self.complete(trial, values)

    def fail(self, trial: StudyTrial, failure: str, reason: str) -> None:
        """End a trial without values: the class of its failure, and what happened."""
        self._end(trial, failure=failure, reason=reason)

    def rule_out(self, trial: StudyTrial, failure: str, reason: str) -> None:
        """End a trial that its own settings made fail: samplers learn to stay away from it."""
        self._end(trial, pruned=True, **{INFEASIBLE: True}, failure=failure, reason=reason)

    def withdraw(self, trial: StudyTrial, failure: str, reason: str) -> None:
        """End a trial that does not count, since it failed for a reason outside its point.

        Samplers are asked again, and a grid takes the point after those that were never tried.
        """
        self._end(trial, **{WITHDRAWN: True}, failure=failure, reason=reason)

    def prune(self, trial: StudyTrial, reason: str, step: int) -> None:
        """End a trial at a step because it lags behind."""
        self._end(trial, pruned=True, reason=reason, step=step)

    def known(self, point: Point, values: Sequence[float], source: str, **attrs: Any) -> bool:
        """Enter a result from elsewhere, so that samplers learn from it; `source` says from where.

        Returns False, and enters nothing, if the point is not in the space, or the study has its
        result or waits for it.
        """
        states = {point_key(one.point): one.state for one in self.trials()}
        if point not in self.space or states.get(point_key(point)) in (State.DONE, State.RUNNING):
            return False
        self.enter(point, values, {"source": source, **attrs})
        self.failed = [one for one in self.failed if point_key(one.point) != point_key(point)]
        return True

    def _end(self, trial: StudyTrial, *, pruned: bool = False, **notes: Any) -> None:
        self._require_held()
        self.note(trial, **notes)
        self.end(trial, pruned=pruned)

    def _require_held(self) -> None:
        """Raise StoreError if another driver has taken over the study."""
        if self.lease is not None:
            self.lease.require()

    def _left(self, met: Mapping[Any, StudyTrial]) -> list[Point] | None:
        """The points without a trial; None if there are too many to list."""
        points = list(self.space.points()) if self.sampler == "grid" else self.space.listed()
        return None if points is None else [one for one in points if point_key(one) not in met]

    def _asked(self, met: Mapping[Any, StudyTrial]) -> StudyTrial | None:
        """What the sampler proposes; None if it is known, of which it is told the result."""
        withdrawn, counted = len(self.withdrawn()), self.asked()
        ruled_out = sum(one.state is State.INFEASIBLE for one in self.trials())
        chooses = sampler(self.sampler, self.seed, counted, withdrawn, self._space, ruled_out)
        proposed = self.ask(chooses)
        known = met.get(point_key(proposed.point))
        if known is None:
            return proposed
        self.note(proposed, **{REPEATS: known.number})
        if known.values is None:
            self.end(proposed)
        else:
            self.complete(proposed, known.values)
        return None
