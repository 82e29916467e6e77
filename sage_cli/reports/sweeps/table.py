"""The tables of a sweep: trials, the best one, failures, and the importance of the parameters."""

from __future__ import annotations

import math

from sage_cli.metrics.comparisons.ranking import Ranking
from sage_cli.metrics.comparisons.winner import Gap, Optimism, Winner
from sage_cli.reports.sweeps.result import Axis, SweepResult, SweepTrial, as_text, describe
from sage_cli.reports.tables.table import UNDEFINED, Cell, Column, Measure, Row, Table


def winner_table(result: SweepResult) -> Table:
    """Return a column per objective: the best trial less the base and the second, its optimism."""
    winners = list(result.winners.values())
    known = any(one.optimism and one.optimism.estimate is not None for one in winners)
    rows: list[tuple[str, list[Cell]]] = [
        ("trial", [str(one.best + 1) for one in winners]),
        ("less initial policy", [gap_measure(one.over_base) for one in winners]),
        ("second best trial", [_place_number(one.second) for one in winners]),
        ("less second best", [gap_measure(one.over_second) for one in winners]),
    ]
    nothing = Optimism(None, math.nan, math.nan)
    chosen = [one.optimism or nothing for one in winners]
    if known:
        rows.append(("optimism", [_optimism_measure(one.estimate) for one in chosen]))
    else:
        rows.append(("optimism at least", [_optimism_measure(one.least) for one in chosen]))
        rows.append(("optimism at most", [_optimism_measure(one.most) for one in chosen]))
    columns = (Column(""), *(Column(name, part=name) for name in result.winners))
    return Table(
        "the best trial",
        columns,
        tuple(Row((name, *cells)) for name, cells in rows),
        _winner_notes(result, known),
    )


def _winner_notes(result: SweepResult, known: bool) -> tuple[str, ...]:
    found = [
        "paired differences, whose intervals do not allow for the choice of the best: "
        "a sweep over the best trials with other seeds measures what is left of them"
    ]
    if all(one.optimism is None for one in result.winners.values()):
        return tuple(found)
    found.append(
        f"optimism: how much the highest of {len(result.done)} values overstates its trial on "
        "average, because it was chosen for being the highest"
    )
    if not known:
        found.append(
            "one seed per trial does not show how seeds vary: `at least` counts problems alone, "
            "`at most` holds if all trials were equal; --seeds 3 gives an estimate"
        )
    return tuple(found)


def describe_winner(one: Winner) -> list[str]:
    """Return a sentence for each thing that is known of the best trial."""
    said = []
    if one.over_base is not None:
        said.append(f"less initial policy: {_gap(one.over_base)}")
    if one.over_second is not None and one.second is not None:
        said.append(f"less the second best, trial {one.second + 1}: {_gap(one.over_second)}")
    if one.optimism is not None:
        said.append(f"optimism of the choice: {_optimism_sentence(one.optimism)}")
    return said


def short_note(result: SweepResult, objective: str) -> str:
    """Return the best trial's lead over the base and its optimism, for a picture; "" if unknown."""
    one = result.winners.get(objective)
    if one is None:
        return ""
    lines = [f"best less initial policy {_gap(one.over_base)}"] if one.over_base else []
    if one.optimism is not None:
        lines.append(f"optimism {_optimism_span(one.optimism)}")
    return "\n".join(lines)


def _optimism_sentence(optimism: Optimism) -> str:
    if optimism.estimate is not None:
        return f"about {optimism.estimate:.3f}"
    return (
        f"{_optimism_span(optimism)}; one seed per trial does not show how seeds vary, so the "
        "first number counts problems alone, and the second holds if all trials were equal"
    )


def _optimism_span(optimism: Optimism) -> str:
    if optimism.estimate is not None:
        return f"{optimism.estimate:.3f}"
    if math.isnan(optimism.least):
        return f"at most {optimism.most:.3f}"
    return f"at least {optimism.least:.3f}, at most {optimism.most:.3f}"


def _optimism_measure(value: float | None) -> Measure:
    return Measure(math.nan if value is None else value)


def _place_number(place: int | None) -> str:
    return UNDEFINED if place is None else str(place + 1)


def gap_measure(gap: Gap | None) -> Measure:
    """Return a difference with its sign and interval, as a cell."""
    if gap is None:
        return Measure(math.nan)
    return Measure(gap.value, interval=(gap.low, gap.high), signed=True)


def _gap(gap: Gap) -> str:
    return str(gap_measure(gap))


WORDS = {"left": "not run yet", "running": "running", "cancelled": "cancelled"}


def sweep_tables(result: SweepResult) -> tuple[Table, ...]:
    """Return the table of trials, then the best trial, failures and importances if any."""
    failed = any(trial.failure for trial in result.trials)
    return (
        trials_table(result),
        *([winner_table(result)] if result.winners else []),
        *([failures_table(result)] if failed else []),
        *([importance_table(result)] if result.importances else []),
    )


def trials_table(result: SweepResult) -> Table:
    """Return a row per trial: settings, objectives with intervals, seeds, runs or the state."""
    named = [("base", result.base)] if result.base is not None else []
    named += [(str(number), trial) for number, trial in enumerate(result.trials, 1)]
    rows = []
    for name, trial in named:
        settings = [_setting(trial, axis) for axis in result.space]
        seen = [_measure(trial, objective) for objective in result.objectives]
        seeds = len(trial.runs) if trial.values else Measure(math.nan)
        section = "base" if name == "base" else "trials"
        rows.append(Row((name, *settings, *seen, seeds, _outcome(trial)), section))
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
        for name, one in sorted(effects.items(), key=lambda item: item[1].p):
            share = Measure(one.share, interval=(one.low, one.high))
            words = "seen" if one.seen else "no effect seen"
            rows.append(Row((objective, name, share, Measure(one.p), words), section=objective))
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
    notes += [_best(name, one, result) for name, one in result.rankings.items()]
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


def _measure(trial: SweepTrial, objective: str) -> Measure:
    value, ends = (trial.values or {}).get(objective, math.nan), trial.intervals or {}
    return Measure(value, interval=ends.get(objective))


def _setting(trial: SweepTrial, axis: Axis) -> Cell:
    value = trial.settings.get(axis.key)
    if value is None:
        return Measure(math.nan) if axis.is_number else UNDEFINED
    if isinstance(value, bool | str):
        return as_text(value)
    return Measure(value, digits=4, significant=True)


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
