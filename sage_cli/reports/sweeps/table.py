"""The tables of a sweep: trials, failures, and the importance of the parameters."""

from __future__ import annotations

import math

from sage_cli.metrics.ranking import Ranking
from sage_cli.reports.sweeps.result import Axis, SweepResult, SweepTrial, as_text, describe
from sage_cli.reports.tables import UNDEFINED, Cell, Column, Estimate, Row, Table

WORDS = {"left": "not run yet", "running": "running", "cancelled": "cancelled"}


def sweep_tables(result: SweepResult) -> tuple[Table, ...]:
    """Return the table of trials, then failures and importances if any."""
    failed = any(trial.failure for trial in result.trials)
    return (
        trials_table(result),
        *([failures_table(result)] if failed else []),
        *([importance_table(result)] if result.importances else []),
    )


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
    for place, trial in enumerate(result.trials, 1):
        if (failure := trial.failure) is not None:
            reason = " ".join(failure.reason.split())
            last = next((line.strip() for line in reversed(failure.log) if line.strip()), "")
            words = (str(place), describe(trial, result.space), failure.kind, reason, last)
            rows.append(Row(words))
    columns = (
        *map(Column, ("trial", "settings", "class")),
        *(Column(name, part=name) for name in ("reason", "log's last line")),
    )
    return Table("failed trials", columns, tuple(rows))


def importance_table(result: SweepResult) -> Table:
    """Return each parameter's share of the ranks' variance, with its interval and Holm's p."""
    rows = []
    for objective, effects in result.importances.items():
        for name, effect in sorted(effects.items(), key=lambda item: item[1].p):
            share = Estimate(effect.share, interval=(effect.low, effect.high))
            words = "seen" if effect.seen else "no effect seen"
            rows.append(Row((objective, name, share, Estimate(effect.p), words), section=objective))
    columns = map(Column, ("objective", "parameter", "share", "p", "effect"))
    note = (
        "share: of the variance of the trials' ranks that the other parameters leave; p: Holm's "
        "over the parameters; an effect is called seen where p is at most .05"
    )
    return Table("importance of the parameters", tuple(columns), tuple(rows), (note,))


def _notes(result: SweepResult) -> tuple[str, ...]:
    notes = []
    if any(trial.intervals for trial in result.trials):
        notes.append(f"{100 * result.confidence:g} % intervals over {_sources(result)}")
    notes += [_best(name, ranking, result) for name, ranking in result.rankings.items()]
    if (front := result.front) is not None:
        count = len(set(front.indistinguishable) - set(front.best))
        others = f"{count} other{'' if count == 1 else 's'}"
        trials = "trials" if len(front.best) > 1 else "trial"
        notes.append(
            f"Pareto front: {trials} {', '.join(str(place + 1) for place in front.best)}"
            + (f"; {others} indistinguishable from it" if result.rankings and count else "")
        )
    missing = [
        str(place + 1) for place, trial in enumerate(result.trials) if trial.state == "missing"
    ]
    if missing:
        notes.append(
            f"trial{'s' * (len(missing) > 1)} {', '.join(missing)} had results that the store "
            "has no more: not compared; the same command makes them again"
        )
    if both := result.selected_on_reported:
        notes.append(
            f"selected on {both}, which is also what is reported: the best trial looks better "
            "there than it is; measure it on other problems"
        )
    return tuple(notes)


def _sources(result: SweepResult) -> str:
    if result.about == "methods":
        return "problems and seeds"
    if any(len(trial.runs) > 1 for trial in result.done.values()):
        return "problems and seeds; trials with one run are compared as models, not as settings"
    return "problems, about these very runs, not their settings: another seed gives another model"


def _best(objective: str, ranking: Ranking, result: SweepResult) -> str:
    others = f"{len(ranking.indistinguishable) - 1} of {len(result.done) - 1} others"
    return (
        f"{objective}: best is trial {ranking.best + 1}; indistinguishable from it: {others} "
        f"({100 * ranking.confidence:g} %, all pairs together; {describe_noise(ranking)})"
    )


def describe_noise(ranking: Ranking) -> str:
    """Return the standard error of a difference from the best trial, in words."""
    if math.isnan(ranking.error):
        return "no two trials differ" if len(ranking.indistinguishable) > 1 else "one trial only"
    return f"standard error of a difference: {ranking.error:.3f}"


def _measure(trial: SweepTrial, objective: str) -> Estimate:
    value, ends = (trial.values or {}).get(objective, math.nan), trial.intervals or {}
    return Estimate(value, interval=ends.get(objective))


def _setting(trial: SweepTrial, axis: Axis) -> Cell:
    value = trial.settings.get(axis.key)
    if value is None:
        return Estimate(math.nan) if axis.is_number else UNDEFINED
    if isinstance(value, bool | str):
        return as_text(value)
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
