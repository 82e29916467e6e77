"""The outcome of a study's trials, read from the store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING, Any

from sage_cli.errors import SageError
from sage_cli.evaluation.evaluate import configured_provenance
from sage_cli.problems.load import benchmark_names
from sage_cli.problems.registry import shown_name
from sage_cli.reports.document import Document
from sage_cli.store.run import Run
from sage_cli.trials.sweep.plan import Sweep
from sage_cli.trials.sweep.report import document_of
from sage_cli.trials.sweep.result import (
    Axis,
    CountedTrial,
    LearningCurve,
    ShownState,
    SweepTrial,
    TrialFailure,
    sweep_result,
)
from sage_cli.trials.sweep.scores import ByBenchmark, mean_scores, trial_values
from sage_cli.trials.sweep.space import Parameter, Range
from sage_cli.trials.sweep.study_trial import State, StudyTrial

if TYPE_CHECKING:
    from sage_cli.trials.sweep.study import Study


POINTS = 40
"""The most points of a curve: longer ones are means over equal numbers of steps."""
_SHOWN = ("eval/pass@1", "reward")
"""The records that a curve may have, the first that a run has."""


def outcome(sweep: Sweep, study: Study, under_way: Collection[int]) -> Document:
    """The trials in the order in which they were proposed, beside the initial policy.

    `under_way` are those whose jobs run on without their driver.
    """
    settings = sweep.config.sweep
    result = sweep_result(
        [_axis(name, parameter) for name, parameter in sweep.space.parameters.items()],
        settings.objectives,
        [_trial(trial, sweep, trial.number in under_way) for trial in study.trials()],
        _base(sweep),
        _reported(sweep),
    )
    return document_of(result, configured_provenance(sweep.benchmarks, sweep.shared))


def lost(study: Study, sweep: Sweep) -> list[StudyTrial]:
    """The done trials for which some replicate's results are no longer stored."""
    done = (trial for trial in study.trials() if trial.state is State.DONE)
    return [trial for trial in done if _stored(trial, sweep)[1] is not None]


def _stored(trial: StudyTrial, sweep: Sweep) -> tuple[dict[str, ByBenchmark], str | None]:
    """The stored counts of a trial by run, and what is missing of a trial that is done."""
    counts_by_run, missing = {}, None
    try:
        for replicate in sweep.trial(trial.point).replicates:
            if (counts := sweep.results(replicate)) is not None:
                counts_by_run[replicate.policy.label] = counts
            else:
                run = replicate.policy.label
                missing = missing or f"{run}, or some of its samples, cannot be read"
    except SageError as error:
        missing = error.cause
    return counts_by_run, missing


def _axis(name: str, parameter: Parameter) -> Axis:
    if isinstance(parameter, Range):
        low, high = parameter.range
        return Axis(name, parameter.key, low=low, high=high, log=parameter.log)
    return Axis(name, parameter.key, values=parameter.values)


def _trial(stored_trial: StudyTrial, sweep: Sweep, goes_on: bool) -> SweepTrial:
    """A trial with all of its measured seeds."""
    counts_by_run, missing = _stored(stored_trial, sweep)
    notes = stored_trial.attrs
    state: ShownState = "running" if goes_on else "left"
    trial = CountedTrial(
        stored_trial.point, state, runs=tuple(counts_by_run), curve=_curve(stored_trial, sweep)
    )
    if stored_trial.state is State.DONE and missing is not None:
        # the study has its values, but their noise is unknown
        values = _named(sweep, stored_trial.values or ())
        return replace(trial, state="missing", values=values, missing=missing)
    if stored_trial.state is State.DONE:
        scores = [
            trial_values(sweep.config.sweep.objectives, counts) for counts in counts_by_run.values()
        ]
        values, counts = _named(sweep, mean_scores(scores)), tuple(counts_by_run.values())
        return replace(trial, state="done", values=values, counts=counts)
    if stored_trial.state in (State.FAILED, State.INFEASIBLE):
        lines = tuple(notes.get("lines", ()))
        why = TrialFailure(str(notes.get("failure")), str(notes.get("reason")), lines)
        return replace(trial, state="failed", failure=why)
    if stored_trial.state is State.PRUNED:
        return replace(trial, state="pruned", pruned=str(notes.get("reason")))
    return trial


def _named(sweep: Sweep, values: Sequence[float]) -> dict[str, float]:
    names = [objective.name for objective in sweep.config.sweep.objectives]
    return dict(zip(names, values, strict=True))


def _curve(trial: StudyTrial, sweep: Sweep) -> LearningCurve | None:
    """The learning curve of a trial's first run; None if its settings contradict each other."""
    try:
        return learning_curve(sweep.trial(trial.point).replicates[0].policy.run)
    except SageError:
        return None


def _base(sweep: Sweep) -> SweepTrial | None:
    """The initial policy; None if trials differ in it, or it is not measured."""
    counts = sweep.results(sweep.initial)
    if counts is None:
        return None
    values = _named(sweep, trial_values(sweep.config.sweep.objectives, counts))
    return CountedTrial({}, "done", values, runs=(sweep.initial.policy.label,), counts=(counts,))


def _reported(sweep: Sweep) -> str | None:
    """The benchmarks on which settings are selected although they are also reported."""
    config = sweep.config
    names = benchmark_names(config.evaluation.benchmark)
    reported = {shown_name(name, config.data) for name in names}
    both = [benchmark.name for benchmark in sweep.benchmarks if benchmark.name in reported]
    return ", ".join(both) or None


def learning_curve(run: Run | None) -> LearningCurve | None:
    """Return a run's pass@1 on validation problems, or its reward; None without either.

    The reward of a long run is averaged over windows, each at its last step.
    """
    if run is None or not run.metrics.path.is_file():
        return None
    records = run.metrics.read()
    for key in _SHOWN:
        points = [
            (int(record["step"]), float(record[key])) for record in records if _has(record, key)
        ]
        if points:
            return LearningCurve(key, _thinned(points))
    return None


def _has(record: dict[str, Any], key: str) -> bool:
    value = record.get(key)
    return isinstance(value, int | float) and not isnan(value)


def _thinned(points: Sequence[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Return `POINTS` windows' last steps and means, or the points if they are not more."""
    size = -(-len(points) // POINTS)
    windows = [points[start : start + size] for start in range(0, len(points), size)]
    return tuple((part[-1][0], sum(value for _, value in part) / len(part)) for part in windows)
