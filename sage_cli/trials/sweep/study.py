"""The study: its trials as Optuna stores them, what became of each, and the next one.

Optuna's samplers and pruners by name, and a search space in Optuna's terms.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Collection, Container, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from numpy.random import default_rng
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import (
    BasePruner,
    HyperbandPruner,
    MedianPruner,
    NopPruner,
    SuccessiveHalvingPruner,
)
from optuna.samplers import (
    BaseSampler,
    CmaEsSampler,
    GPSampler,
    NSGAIISampler,
    QMCSampler,
    RandomSampler,
    TPESampler,
)
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from sage_cli.store.result_hash import identity_of
from sage_cli.trials.sweep.space import Point, SettingValue, Space, point_key
from sage_cli.trials.sweep.study_trial import State, StudyTrial

_WITH_ORDER = ("qmc", "tpe", "gp", "cmaes")
"""Samplers that go by how near values are to each other."""


def ordered_lists(space: Space, sampler: str) -> list[str]:
    """Return the lists of numbers, by short name, whose order that sampler can use."""
    if sampler not in _WITH_ORDER:
        return []
    return [name for name, values in space.lists.items() if values.numeric]


class OptunaSpace:
    """A space in Optuna's terms; a list in `ordered` becomes the indices of its sorted values.

    As categories, its values would have no order.
    """

    def __init__(self, space: Space, ordered: Collection[str]) -> None:
        self.space = space
        self._distributions = {
            name: parameter.distribution for name, parameter in space.parameters.items()
        }
        self._sorted: dict[str, list[Any]] = {}
        for name in ordered:
            values: Any = space.parameters[name].options
            self._sorted[name] = sorted(values)
            self._distributions[name] = IntDistribution(0, len(values) - 1)

    @property
    def always(self) -> dict[str, BaseDistribution]:
        """The distributions of the parameters that every point has."""
        names = self._distributions.keys() - self.space.conditional
        return {name: chosen for name, chosen in self._distributions.items() if name in names}

    def to_params(self, point: Point) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        """Return a point as a trial's parameters, with their distributions."""
        keys = {name: key for name, key in self.space.keys.items() if key in point}
        params = {
            name: self._sorted[name].index(point[key]) if name in self._sorted else point[key]
            for name, key in keys.items()
        }
        return params, {name: self._distributions[name] for name in keys}

    def from_params(self, params: Mapping[str, Any]) -> Point:
        """Return the point that a trial's parameters mean, as far as they were chosen."""
        keys = self.space.keys.items()
        return {key: self._value(name, params[name]) for name, key in keys if name in params}

    def suggest(self, trial: Trial) -> Point:
        """Return the point that the trial's sampler chooses; absent parameters are left out."""
        point: dict[str, SettingValue] = {}
        for name, parameter in self.space.parameters.items():
            if parameter.exists_in(point):
                chosen = _suggested(trial, name, self._distributions[name])
                point[parameter.key] = self._value(name, chosen)
        return point

    def _value(self, name: str, chosen: Any) -> Any:
        return self._sorted[name][chosen] if name in self._sorted else chosen


def _suggested(trial: Trial, name: str, among: BaseDistribution) -> Any:
    if isinstance(among, CategoricalDistribution):
        return trial.suggest_categorical(name, among.choices)
    if isinstance(among, IntDistribution):
        return trial.suggest_int(name, among.low, among.high, log=among.log)
    assert isinstance(among, FloatDistribution)
    return trial.suggest_float(name, among.low, among.high, log=among.log)


STARTUP = 5
"""Points that tpe and gp spread evenly before they model anything. Optuna takes 10 at random, a
third of a sweep of 30. Chosen on the made-up surfaces of benchmarks/bayes.py."""
GOOD = 0.15
"""The share of the trials that tpe calls good; Optuna's is .1. Chosen as the least of .15, .2 and
.33 with at most 12 of 30 diverged in benchmarks/diverging.py, on seeds of its own."""
MOST_GOOD = 25
"""Optuna's own limit."""
LEAST = 2
"""Feasible points without which tpe and gp cannot model anything, and go on evenly."""
POPULATION = 10
"""nsga2's: with Optuna's 50, a sweep of 30 would end within the first, random generation."""
INFEASIBLE = "infeasible"
"""Name of the note of a trial whose own settings made it fail; Optuna has it as pruned."""


class _Sobol(QMCSampler):
    """A scrambled Sobol sequence over `space`, from the first point on; its place is in the study.

    Optuna's own draws the first point at random, to learn from it what the space is.
    """

    def __init__(self, space: Mapping[str, BaseDistribution], seed: int, rest: BaseSampler) -> None:
        super().__init__(
            scramble=True, seed=seed, independent_sampler=rest, warn_independent_sampling=False
        )
        self._space = dict(space)

    def infer_relative_search_space(
        self,
        study: optuna.Study,  # noqa: ARG002
        trial: FrozenTrial,  # noqa: ARG002
    ) -> dict[str, BaseDistribution]:
        return self._space


def sampler(
    name: str, seed: int, asked: int, space: OptunaSpace, infeasible: int = 0
) -> BaseSampler:
    """A sampler for the ask after `asked` others, `infeasible` of which were ruled out.

    Its proposals depend on the study's content, the seed and these numbers alone, so a restarted
    driver proposes the same points.
    """
    # a generator for each proposal, instead of one that lives as long as the driver: a restarted
    # driver proposes the same points
    seed_of_ask = int(np.random.SeedSequence([seed, asked]).generate_state(1)[0])
    begins = asked < STARTUP or asked - infeasible < LEAST
    # the first points of a model-based search by a low-discrepancy sequence, which covers the space
    # better than random points
    if name == "qmc" or (name in ("tpe", "gp") and begins):
        return _Sobol(space.always, seed, rest=RandomSampler(seed=seed_of_ask))
    if name == "tpe":
        return TPESampler(
            seed=seed_of_ask,
            n_startup_trials=STARTUP,
            # running trials count as bad ones, so that several at once are not proposed beside each
            # other
            constant_liar=True,
            gamma=lambda trials: min(math.ceil(GOOD * trials), MOST_GOOD),
        )
    if name == "gp":
        return GPSampler(
            seed=seed_of_ask, n_startup_trials=STARTUP, warn_independent_sampling=False
        )
    if name == "cmaes":
        return CmaEsSampler(seed=seed_of_ask, warn_independent_sampling=False)
    if name == "nsga2":
        return NSGAIISampler(seed=seed_of_ask, population_size=POPULATION)
    return RandomSampler(seed=seed_of_ask)


def pruner(name: str, first: int, steps: int) -> BasePruner:
    """A pruner of trainings of so many `steps`, the first of which is validated at step `first`."""
    if name == "median":
        return MedianPruner()
    if name == "asha":
        return SuccessiveHalvingPruner(min_resource=first)
    if name == "hyperband":
        return HyperbandPruner(min_resource=first, max_resource=steps)
    return NopPruner()


class TaughtStudy(optuna.Study):
    """The same study, in which samplers learn from infeasible trials.

    TPE ranks pruned trials behind all others. The other samplers read complete trials only: they
    find infeasible ones complete, with the worst value that was measured of each objective.
    """

    # Nothing public of Optuna does this. A trial that is told the worst value stays told: later
    # trials may be worse, and reports would show a value that nobody measured. `constraints_func`
    # takes a trial that has values. Asking a copy of the study, filled by `add_trial`, would lose
    # what samplers note in the study's storage, such as the place in Sobol's sequence, and with it
    # the same proposals after a restart.

    def _get_trials(
        self,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
        use_cache: bool = False,
    ) -> list[FrozenTrial]:
        # all states, since an infeasible trial is shown under another state than it is stored with
        trials = super()._get_trials(deepcopy, None, use_cache)
        worst = None if isinstance(self.sampler, TPESampler) else _worst(trials)
        seen = [
            _seen(trial, worst) if INFEASIBLE in trial.user_attrs else trial for trial in trials
        ]
        return [trial for trial in seen if states is None or trial.state in states]


def _worst(trials: Sequence[FrozenTrial]) -> list[float] | None:
    """The lowest measured value of each objective; None if nothing is measured."""
    values = [trial.values for trial in trials if trial.state is TrialState.COMPLETE]
    return [float(value) for value in np.min(values, axis=0)] if values else None


def _seen(infeasible: FrozenTrial, worst: list[float] | None) -> FrozenTrial:
    if infeasible.state is not TrialState.PRUNED:
        return infeasible
    seen = copy.copy(infeasible)
    seen.intermediate_values = {}  # Optuna would rank it by how far it came
    if worst is not None:
        seen.state = TrialState.COMPLETE
        seen.values = worst
    return seen


optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore", category=ExperimentalWarning)  # names of objectives
JOURNAL = "journal.log"
REPEATS = "repeats"
"""Name of a note: the trial that a trial repeats."""
_STATES = {
    TrialState.RUNNING: State.RUNNING,
    TrialState.COMPLETE: State.DONE,
    TrialState.PRUNED: State.PRUNED,
    TrialState.FAIL: State.FAILED,
}


def open_journal(folder: Path) -> JournalStorage:
    """Return the journal in a sweep's folder, for its one driver."""
    folder.mkdir(parents=True, exist_ok=True)
    _repair_journal(folder / JOURNAL)
    return JournalStorage(JournalFileBackend(str(folder / JOURNAL)))


def _repair_journal(path: Path) -> None:
    """Remove what a killed driver left: half a line, and the lock with which it wrote.

    Only the process with the sweep's lock opens the journal to write.
    """
    path.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
    if not path.exists():
        return
    content = path.read_bytes()
    # Optuna appends a line per change: what follows the last newline was being written when the
    # driver died, and would make every later line unreadable
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        with path.open("r+b") as file:
            file.truncate(whole)


_PATIENCE = 25
"""How often in a row a sampler may propose a known point before it is no longer asked."""


class Study:
    """One view of a sweep, kept by Optuna. One driver writes at a time; anybody may read.

    `name` is `<sweep>/<8 hex>`; `failed` are the trials that failed for an earlier driver and wait
    to be repeated.
    """

    def __init__(self, study: optuna.Study, space: OptunaSpace) -> None:
        self._study, self._space = study, space
        about = study.user_attrs
        self.name = study.study_name
        self.space = space.space
        self.objectives: tuple[str, ...] = tuple(about["objectives"])
        self.sampler: str = about["sampler"]
        self.seed: int = about["seed"]
        self.failed: list[StudyTrial] = []

    @classmethod
    def open(
        cls,
        folder: Path,
        sweep: str,
        space: Space,
        sampler: str,
        seed: int,
        objectives: Sequence[str],
        determinants: Mapping[str, Any] | None = None,
        pruner: BasePruner | None = None,
    ) -> Study:
        """Return the driver's own, in the sweep's folder.

        The view is named by all arguments but `folder`; `determinants` are whatever else decides
        the values. Trials that an earlier driver left running still run; points that failed for it
        are proposed before any other.
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
        study = optuna.create_study(
            study_name=f"{sweep}/{identity[:8]}",
            storage=open_journal(folder),
            pruner=pruner or NopPruner(),
            directions=["maximize"] * len(objectives),
            load_if_exists=True,
        )
        for name in about.keys() - study.user_attrs.keys():
            study.set_user_attr(name, about[name])
        if study.metric_names is None:
            study.set_metric_names(list(objectives))
        opened_study = cls(study, OptunaSpace(space, ordered))
        opened_study._tidy()
        trials = opened_study.trials()
        opened_study.failed = [trial for trial in trials if trial.state is State.FAILED]
        return opened_study

    def trials(self) -> list[StudyTrial]:
        """Every point once, in the order of their first trials, with its latest trial.

        A result counts more than a failure after it.
        """
        latest: dict[Any, StudyTrial] = {}
        for frozen in self._whole():
            trial = self._trial(frozen)
            before = latest.get(point_key(trial.point))
            if REPEATS not in trial.attrs and (before is None or before.state is not State.DONE):
                latest[point_key(trial.point)] = trial
        return list(latest.values())

    def running(self) -> list[StudyTrial]:
        """The trials that have not ended, of this driver or an earlier one."""
        return [trial for trial in self.trials() if trial.state is State.RUNNING]

    def propose(self) -> StudyTrial | None:
        """The next new trial, now running; None if no point is left, or none was found.

        If a sampler proposes a known point, it is told the result and asked again. After PATIENCE
        such proposals a random one of the points that are left is taken.
        """
        if self.failed:
            failed = self.failed.pop(0)
            return self.begin(failed.point, {"again": failed.number})
        met = {point_key(trial.point): trial for trial in self.trials()}
        left = self._left(met)
        if left == []:
            return None
        if left and self.sampler == "grid":
            return self.begin(left[0], {})
        for _ in range(_PATIENCE):
            if (proposed := self._asked(met)) is not None:
                return proposed
        if left is None:
            return None
        return self.begin(left[default_rng([self.seed, len(met)]).integers(len(left))], {})

    def begin(self, point: Point, attrs: Mapping[str, Any]) -> StudyTrial:
        """A running trial of a point that no sampler chose."""
        number = self._add(point, attrs, state=TrialState.RUNNING)
        return StudyTrial(number, point, State.RUNNING, attrs=dict(attrs))

    def note(self, trial: StudyTrial, **attrs: Any) -> None:
        """Store something about a trial that has not ended yet, in JSON's types."""
        for name, value in attrs.items():
            self._store("set_trial_user_attr", trial, name, value)

    def report(self, trial: StudyTrial, step: int, value: float) -> None:
        """Store the objective at a step of the training; Optuna takes no more than one."""
        self._store("set_trial_intermediate_value", trial, step, float(value))

    def last_report(self, trial: StudyTrial) -> int:
        """Return the last step at which a trial's objective is stored; 0 without one."""
        return self._frozen(trial).last_step or 0

    def should_prune(self, trial: StudyTrial) -> bool:
        """Return True if the study's pruner would end the trial at its last report."""
        return self._study.pruner.prune(self._study, self._frozen(trial))

    def tell(self, trial: StudyTrial, values: Sequence[float]) -> None:
        """End a trial with these values of the objectives."""
        if len(values) != len(self.objectives) or not all(map(math.isfinite, values)):
            raise ValueError(f"{', '.join(self.objectives)} cannot be {list(values)}")
        self._study.tell(trial.number, list(map(float, values)), state=TrialState.COMPLETE)

    def fail(self, trial: StudyTrial, failure: str, reason: str) -> None:
        """End a trial without values: the class of its failure, and what happened."""
        self._end(trial, failure=failure, reason=reason)

    def rule_out(self, trial: StudyTrial, failure: str, reason: str) -> None:
        """End a trial that its own settings made fail: samplers learn to stay away from it."""
        self._end(trial, pruned=True, **{INFEASIBLE: True}, failure=failure, reason=reason)

    def prune(self, trial: StudyTrial, reason: str, step: int) -> None:
        """End a trial at a step because it lags behind."""
        self._end(trial, pruned=True, reason=reason, step=step)

    def known(self, point: Point, values: Sequence[float], source: str, **attrs: Any) -> bool:
        """Enter a result from elsewhere, so that samplers learn from it; `source` says from where.

        Returns False, and enters nothing, if the point is not in the space, or the study has its
        result or waits for it.
        """
        states = {point_key(trial.point): trial.state for trial in self.trials()}
        if point not in self.space or states.get(point_key(point)) in (State.DONE, State.RUNNING):
            return False
        measured = list(map(float, values))
        self._add(point, {"source": source, **attrs}, state=TrialState.COMPLETE, values=measured)
        self.failed = [trial for trial in self.failed if point_key(trial.point) != point_key(point)]
        return True

    def _end(self, trial: StudyTrial, *, pruned: bool = False, **notes: Any) -> None:
        self.note(trial, **notes)
        state = TrialState.PRUNED if pruned else TrialState.FAIL
        self._study.tell(trial.number, state=state)

    def _left(self, met: Mapping[Any, StudyTrial]) -> list[Point] | None:
        """The points without a trial; None if there are too many to list."""
        points = list(self.space.points()) if self.sampler == "grid" else self.space.listed()
        return points and [point for point in points if point_key(point) not in met]

    def _asked(self, met: Mapping[Any, StudyTrial]) -> StudyTrial | None:
        """The sampler's proposal; None if the point is known, whose result the sampler learns.

        The sampler learns from infeasible trials, too.
        """
        ruled_out = sum(trial.state is State.INFEASIBLE for trial in self.trials())
        chooses = sampler(self.sampler, self.seed, len(self._whole()), self._space, ruled_out)
        self._study.sampler = chooses
        asked = TaughtStudy(self.name, self._study._storage, chooses).ask()
        proposed = StudyTrial(asked.number, self._space.suggest(asked), State.RUNNING)
        earlier = met.get(point_key(proposed.point))
        if earlier is None:
            return proposed
        self.note(proposed, **{REPEATS: earlier.number})
        # the repeated point gets the known result: a sampler that is told nothing would propose it
        # again and again
        state = TrialState.FAIL if earlier.values is None else TrialState.COMPLETE
        self._study.tell(proposed.number, earlier.values, state=state)
        return None

    def _tidy(self) -> None:
        """Close the trials that a killed driver had asked for but not yet filled with a point."""
        running = {trial.number for trial in self.running()}
        for frozen in self._all():
            if frozen.state is TrialState.RUNNING and frozen.number not in running:
                # such a trial has no parameters, or only some, and no task would ever end it
                self._study.tell(frozen.number, state=TrialState.FAIL)

    def _all(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False)

    def _whole(self) -> list[FrozenTrial]:
        return [
            frozen
            for frozen in self._all()
            if frozen.state is not TrialState.WAITING
            and self._space.from_params(frozen.params) in self._space.space
        ]

    def _frozen(self, trial: StudyTrial) -> FrozenTrial:
        return self._all()[trial.number]

    def _trial(self, frozen: FrozenTrial) -> StudyTrial:
        attrs = dict(frozen.user_attrs)
        state = State.INFEASIBLE if INFEASIBLE in attrs else _STATES[frozen.state]
        values = tuple(frozen.values) if state is State.DONE else None
        point = self._space.from_params(frozen.params)
        return StudyTrial(frozen.number, point, state, values, attrs)

    def _add(self, point: Point, attrs: Mapping[str, Any], **of_frozen: Any) -> int:
        """Enter a trial all at once; its number."""
        params, distributions = self._space.to_params(point)
        frozen = create_trial(
            params=params, distributions=distributions, user_attrs=dict(attrs), **of_frozen
        )
        self._study.add_trial(frozen)
        return self._all()[-1].number

    def _store(self, method: str, trial: StudyTrial, *given: Any) -> None:
        """Call a method of Optuna's storage that says something of a trial."""
        # `optuna.Trial` has these methods, too, but `ask` alone gives one: a driver that takes up
        # the trials of another can only make one by its number in the storage, which would ask the
        # sampler for the trial's values once more
        getattr(self._study._storage, method)(self._frozen(trial)._trial_id, *given)
