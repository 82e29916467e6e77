"""The tables of a sweep: its trials, its failures, notes on what the numbers can bear."""

from __future__ import annotations

import math
from collections.abc import Sequence

from sage_cli.metrics.ranking import (
    Ranking,
)
from sage_cli.reports.estimate import UNDEFINED, Estimate
from sage_cli.reports.passk import whole_sample_words
from sage_cli.reports.tables import Cell, Column, Row, Table
from sage_cli.trials.sweep.result import Axis, SettingValue, SweepResult, SweepTrial

WORDS = {"left": "not run yet", "running": "running"}


def describe_trial(trial: SweepTrial, axes: Sequence[Axis]) -> str:
    """Return the settings by their short names, such as `tau=0.465 rho=0.775`."""
    return " ".join(
        f"{axis.name}={value_text(trial.settings[axis.key])}"
        for axis in axes
        if axis.key in trial.settings
    )


def value_text(value: SettingValue) -> str:
    """Return a setting's value as text, numbers with four digits."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def sweep_tables(result: SweepResult) -> tuple[Table, ...]:
    """Return the table of trials, then failures if any."""
    failed = any(trial.failure for trial in result.trials)
    return (trials_table(result), *([failures_table(result)] if failed else []))


def trials_table(result: SweepResult) -> Table:
    """Return a row per trial: settings, objectives with intervals, seeds, runs or the state."""
    labelled = [("base", result.base)] if result.base is not None else []
    labelled += [(str(number), trial) for number, trial in enumerate(result.trials, 1)]
    rows = []
    for name, trial in labelled:
        settings = [_setting(trial, axis) for axis in result.space]
        values = [_measure(trial, objective) for objective in result.objectives]
        seeds = len(trial.runs) if trial.values else Estimate(math.nan)
        section = "base" if name == "base" else "trials"
        rows.append(Row((name, *settings, *values, seeds, _outcome(trial)), section))
    names = [axis.name for axis in result.space]
    return Table(
        f"sweep over {', '.join(names)}",
        (
            *map(Column, ("trial", *names)),
            *(Column(name, part=name) for name in result.objectives),
            *(Column(name, part="runs") for name in ("seeds", "run")),
        ),
        tuple(rows),
        _notes(result),
    )


def failures_table(result: SweepResult) -> Table:
    """Return a row per failed trial: class, reason, and its log's last line."""
    rows = []
    for number, trial in enumerate(result.trials, 1):
        if (failure := trial.failure) is not None:
            reason = " ".join(failure.reason.split())
            last = next((line.strip() for line in reversed(failure.log) if line.strip()), "")
            words = (str(number), describe_trial(trial, result.space), failure.kind, reason, last)
            rows.append(Row(words))
    columns = (
        *map(Column, ("trial", "settings", "class")),
        *(Column(name, part=name) for name in ("reason", "log's last line")),
    )
    return Table("failed trials", columns, tuple(rows))


def _notes(result: SweepResult) -> tuple[str, ...]:
    notes = []
    if any(trial.intervals for trial in result.trials):
        notes.append(f"{100 * result.confidence:g}% intervals over {_sources(result)}")
    notes += [_best(name, ranking, result) for name, ranking in result.rankings.items()]
    if (front := result.front) is not None:
        count = len(set(front.indistinguishable) - set(front.best))
        others = f"{count} other{'' if count == 1 else 's'}"
        trials = "trials" if len(front.best) > 1 else "trial"
        notes.append(
            f"Pareto front: {trials} {', '.join(str(index + 1) for index in front.best)}"
            + (f"; {others} indistinguishable from it" if result.rankings and count else "")
        )
    missing = [
        str(index + 1) for index, trial in enumerate(result.trials) if trial.state == "missing"
    ]
    if missing:
        notes.append(
            f"trial{'s' * (len(missing) > 1)} {', '.join(missing)} had results that are no longer "
            "stored, and are not compared; the same command computes them again"
        )
    if result.whole_k is not None:
        notes.append(whole_sample_words(result.whole_k))
    if both := result.selected_on_reported:
        notes.append(
            f"the best trial was selected on {both}, where its results are also reported, so they "
            "are too high; measure it on other problems"
        )
    return tuple(notes)


def _sources(result: SweepResult) -> str:
    if result.about == "methods":
        return "problems and seeds"
    if any(len(trial.runs) > 1 for trial in result.done.values()):
        return "problems and seeds; trials with one run are compared as models, not as settings"
    return (
        "problems; they describe these runs, not their settings: another seed gives another model"
    )


def _best(objective: str, ranking: Ranking, result: SweepResult) -> str:
    others = f"{len(ranking.indistinguishable) - 1} of the {len(result.done) - 1} others"
    return (
        f"{objective}: trial {ranking.best + 1} is best, and {others} cannot be distinguished from "
        f"it ({100 * ranking.confidence:g}% for all pairs together; {describe_noise(ranking)})"
    )


def describe_noise(ranking: Ranking) -> str:
    """Return the standard error of a difference from the best trial, in words."""
    if math.isnan(ranking.error):
        return "no two trials differ" if len(ranking.indistinguishable) > 1 else "only one trial"
    return f"standard error of a difference: {ranking.error:.3f}"


def _measure(trial: SweepTrial, objective: str) -> Estimate:
    value, ends = (trial.values or {}).get(objective, math.nan), trial.intervals or {}
    return Estimate(value, interval=ends.get(objective))


def _setting(trial: SweepTrial, axis: Axis) -> Cell:
    value = trial.settings.get(axis.key)
    if value is None:
        return Estimate(math.nan) if axis.is_number else UNDEFINED
    if isinstance(value, bool | str):
        return value_text(value)
    return Estimate(value, digits=4, significant=True)


def _outcome(trial: SweepTrial) -> str:
    """Return the runs, or why there are none."""
    if trial.state == "done":
        return " ".join(trial.runs)
    if trial.state == "failed":
        return f"failed: {trial.failure.kind}" if trial.failure else "failed"
    if trial.state == "pruned":
        return f"pruned {trial.pruned}" if trial.pruned else "pruned"
    if trial.state == "missing":
        return f"missing: {trial.missing}"
    return WORDS[trial.state]
