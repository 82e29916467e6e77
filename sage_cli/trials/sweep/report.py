"""The report of a sweep: its trials and their uncertainty, its tables, and the heat map."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from itertools import repeat
from math import nan
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from sage_cli.metrics import About, Counts
from sage_cli.metrics.intervals import Resampling
from sage_cli.metrics.ranking import (
    CountsBySeed,
    Front,
    Ranking,
    non_dominated,
    objective_intervals,
    objective_values,
    pareto_front,
    rank,
)
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import UNDEFINED, Estimate
from sage_cli.reports.figures.style import FAINT, GRID, INK, drawing, say
from sage_cli.reports.passk import whole_sample_words
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables import Cell, Column, Row, Table
from sage_cli.settings.objective import Objective

_Value = float | int | str | bool
ShownState = Literal["done", "missing", "failed", "pruned", "running", "left"]
_SYMBOLS = {"tau": "τ", "rho": "ρ"}


@dataclass(frozen=True)
class Axis:
    """A parameter: its short name, its setting, and its `values` or the ends of its range."""

    name: str
    key: str
    values: tuple[_Value, ...] | None = None
    low: float | None = None
    high: float | None = None
    log: bool = False

    @property
    def label(self) -> str:
        """Return its name in pictures."""
        return _SYMBOLS.get(self.name, self.name)

    @property
    def is_number(self) -> bool:
        """Return True if its values are numbers."""
        return self.values is None or all(
            isinstance(value, int | float) and not isinstance(value, bool) for value in self.values
        )


@dataclass(frozen=True)
class TrialFailure:
    """A failure: its class, such as `out of memory`, its reason, the last lines of its log."""

    kind: str
    reason: str
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class LearningCurve:
    """A record of a trial's first run over steps, `of` its name, as (step, value)."""

    of: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class SweepTrial:
    """A trial: its settings, its state, and its runs, one for each seed.

    `values` are the means over seeds by objective, `intervals` their confidence intervals.
    `missing` says what the store has lost of a trial that was done, `pruned` by what and why a
    trial was pruned.
    """

    settings: Mapping[str, _Value]
    state: ShownState
    values: Mapping[str, float] | None = None
    intervals: Mapping[str, tuple[float, float]] | None = None
    runs: tuple[str, ...] = ()
    failure: TrialFailure | None = None
    pruned: str | None = None
    missing: str | None = None
    curve: LearningCurve | None = None


@dataclass(frozen=True)
class CountedTrial(SweepTrial):
    """A trial with the counts of each seed by benchmark, which tell its uncertainty."""

    counts: tuple[Mapping[str, Counts], ...] | None = None


@dataclass(frozen=True)
class SweepResult:
    """The space and the results.

    `rankings` and `front` name trials by their places, from 0.

    They are about "methods", the trials' settings, if every measured trial has several training
    seeds; else about these "models". `selected_on_reported` names the benchmarks that settings are
    selected on although they are also reported.
    """

    space: tuple[Axis, ...]
    objectives: tuple[str, ...]
    confidence: float
    base: SweepTrial | None
    trials: tuple[SweepTrial, ...]
    about: About = "models"
    rankings: Mapping[str, Ranking] = field(default_factory=dict)
    front: Front | None = None
    selected_on_reported: str | None = None
    whole_k: int | None = None
    """A k of an objective that is all samples of a problem."""

    @property
    def done(self) -> dict[int, SweepTrial]:
        """Return the measured trials by place."""
        return {
            index: trial
            for index, trial in enumerate(self.trials)
            if trial.values is not None and trial.state == "done"
        }

    def value_at(self, objective: str) -> dict[int, float]:
        """Return the measured trials' values of an objective by place."""
        return {
            index: trial.values[objective] for index, trial in self.done.items() if trial.values
        }

    def ranked(self, objective: str) -> list[int]:
        """Return the places of the measured trials, best first."""
        value_at = self.value_at(objective)
        return sorted(value_at, key=lambda index: -value_at[index])

    def best(self, objective: str) -> int | None:
        """Return the place of the best trial; None if no trial is measured."""
        return next(iter(self.ranked(objective)), None)

    def indistinguishable(self, objective: str) -> frozenset[int]:
        """Return the places of the trials that may equal the best; empty if that is unknown."""
        ranking = self.rankings.get(objective)
        return frozenset(ranking.indistinguishable) if ranking else frozenset()


def from_data(data: Mapping[str, Any]) -> SweepResult:
    """Return the results in a report's JSON.

    Raises KeyError for what it lacks, TypeError or AttributeError for what is not a result.
    """
    result: SweepResult = _read(SweepResult, data)
    for trial in (result.base, *result.trials):
        for measured in (trial and trial.values, trial and trial.intervals):
            if measured and (lacking := set(result.objectives) - set(measured)):
                raise KeyError(min(lacking))
    return result


def _read(kind: Any, given: Any) -> Any:
    """Return JSON as a value of a type: JSON has null for NaN, and lists for tuples."""
    outer, inner = get_origin(kind), get_args(kind)
    if NoneType in inner:
        return None if given is None else _read(inner[0], given)
    if kind is float:
        return nan if given is None else given
    if outer is tuple:
        kinds = repeat(inner[0]) if inner[-1] is ... else inner
        return tuple(map(_read, kinds, given))
    if outer is Mapping:
        return {key: _read(inner[1], value) for key, value in given.items()}
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        names = [name for name in hints if name in given or name not in ADDED]
        return kind(**{name: _read(hints[name], given[name]) for name in names})
    return given


ADDED = {"whole_k"}
"""Parts that older reports lack."""


def describe_trial(trial: SweepTrial, axes: Sequence[Axis]) -> str:
    """Return the settings by their short names, such as `tau=0.465 rho=0.775`."""
    return " ".join(
        f"{axis.name}={value_text(trial.settings[axis.key])}"
        for axis in axes
        if axis.key in trial.settings
    )


def value_text(value: _Value) -> str:
    """Return a setting's value as text, numbers with four digits."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def sweep_result(
    axes: Sequence[Axis],
    objectives: Sequence[Objective],
    trials: Sequence[SweepTrial],
    base: SweepTrial | None = None,
    selected_on_reported: str | None = None,
    confidence: float = 0.95,
) -> SweepResult:
    """Return the results with intervals, rankings and front; of trials without counts the front.

    `base` is the initial policy, measured on the same problems. `selected_on_reported` names
    benchmarks that are also reported.
    """
    names = tuple(objective.name for objective in objectives)
    of_base = base and _counts(base)
    intervals = _intervals(objectives, [of_base], confidence)[0] if of_base else None
    result = SweepResult(
        tuple(axes),
        names,
        confidence,
        base and _plain(base, intervals),
        tuple(map(_plain, trials)),
        selected_on_reported=selected_on_reported,
    )
    places = list(result.done)
    fewest = min((len(trials[index].runs) for index in places), default=0)
    result = replace(result, about="methods" if fewest > 1 else "models")
    counts = [measured for index in places if (measured := _counts(trials[index]))]
    if not places or len(counts) < len(places):
        return replace(result, front=_front_of_means(result))
    n = min(int(c.n_P.min()) for runs in counts for run in runs for c in run.values())
    whole = n if n > 1 and any(n in objective.weights for objective in objectives) else None
    result = replace(result, whole_k=whole)
    values = {objective.name: objective_values(objective, counts) for objective in objectives}
    by_place = dict(zip(places, _intervals(objectives, counts, confidence), strict=True))
    front = pareto_front(list(values.values()), confidence) if len(objectives) > 1 else None
    return replace(
        result,
        trials=tuple(
            replace(trial, intervals=by_place.get(index))
            for index, trial in enumerate(result.trials)
        ),
        rankings={
            name: _ranking_at(places, rank(by_model, confidence))
            for name, by_model in values.items()
        },
        front=front and Front(_at(places, front.best), _at(places, front.indistinguishable)),
    )


def _plain(
    trial: SweepTrial, intervals: Mapping[str, tuple[float, float]] | None = None
) -> SweepTrial:
    """Return a trial without its counts."""
    plain = {column.name: getattr(trial, column.name) for column in fields(SweepTrial)}
    return SweepTrial(**{**plain, "intervals": intervals})


def _counts(trial: SweepTrial) -> CountsBySeed | None:
    return trial.counts if isinstance(trial, CountedTrial) else None


def _intervals(
    objectives: Sequence[Objective], counts: Sequence[CountsBySeed], confidence: float
) -> list[dict[str, tuple[float, float]]]:
    """Return the intervals of each trial by objective."""
    ends = {
        objective.name: objective_intervals(
            objective_values(objective, counts), Resampling(confidence)
        )
        for objective in objectives
    }
    return [{name: values[row] for name, values in ends.items()} for row in range(len(counts))]


def _front_of_means(result: SweepResult) -> Front | None:
    """Return the front of the values, whose noise is unknown."""
    if len(result.objectives) < 2 or not result.done:
        return None
    value_OM = [[*result.value_at(name).values()] for name in result.objectives]
    best = _at(list(result.done), non_dominated(np.array(value_OM).T))
    return Front(best, best)


def _ranking_at(places: Sequence[int], ranking: Ranking) -> Ranking:
    return replace(
        ranking, best=places[ranking.best], indistinguishable=_at(places, ranking.indistinguishable)
    )


def _at(places: Sequence[int], chosen: Sequence[int]) -> tuple[int, ...]:
    return tuple(places[index] for index in chosen)


WORDS = {"left": "not run yet", "running": "running"}


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


CELL_IN = (0.78, 0.55)
BEST = "#d55e00"
INDISTINGUISHABLE = "indistinguishable from the best"
LOWEST, HIGHEST = 0.1, 0.7
"""The part of the colour map that shows values."""
LETTER_IN = 0.075
"""Width of a letter of a tick's label; columns are as wide as the widest label."""
ALIKE = 0.92
"""Place on the colour map of trials that are indistinguishable from the best."""
LEAST_SPAN = 0.1
"""Least range of the colour scale where the noise is unknown: equal values get equal colours."""
HATCHES = {"failed": "////", "pruned": "...."}
"""State -> how a trial without a result is filled."""


def draw_heatmaps(result: SweepResult, stem: Path) -> None:
    """Draw the trials, first parameter down, second across.

    A trial without a result shows its state, or "not run". The best trials of each objective have a
    frame. Trials that are indistinguishable from the best share one colour; the others' colours
    are values, with a colour bar.
    """
    from matplotlib.patches import Patch

    down, across = result.space
    down_values, across_values = down.values or (), across.values or ()
    letters = max(len(value_text(value)) for value in across_values)
    width_in = max(CELL_IN[0], LETTER_IN * letters + 0.1) * len(across_values) + 1.4
    height_in = max(1.9, CELL_IN[1] * len(down_values) + 1.5)
    alike = any(map(result.indistinguishable, result.objectives))
    with drawing(stem, max(2.9, width_in) * len(result.objectives), height_in) as figure:
        panels = figure.subplots(1, len(result.objectives), squeeze=False, sharey=True)[0]
        for axes, objective in zip(panels, result.objectives, strict=True):
            axes.set_title(objective)
            axes.set_xlabel(across.label)
            axes.set_xticks(range(len(across_values)), map(value_text, across_values))
            scale = _cells(axes, result, objective)
            if scale is not None:
                bar = figure.colorbar(scale, ax=axes, fraction=0.05, pad=0.03)
                bar.outline.set_visible(False)
            ranking = result.rankings.get(objective)
            words = "standard error unknown"
            if ranking:
                words = f"{100 * ranking.confidence:g}%, {describe_noise(ranking)}"
            say(axes, words, (0.5, 0), (0, -30), ha="center", va="top")
        beside = len(down.label) <= 3
        panels[0].set_ylabel(down.label, **({"rotation": 0, "ha": "right"} if beside else {}))
        panels[0].set_yticks(range(len(down_values)), map(value_text, down_values))
        handles = [Patch(facecolor="none", edgecolor=BEST, linewidth=2, label="best")]
        if alike:
            handles.append(Patch(facecolor=colours()(ALIKE), label=INDISTINGUISHABLE))
        if result.done:
            figure.legend(handles=handles, loc="outside lower center", ncols=2, handlelength=1.2)


def _cells(axes: Any, result: SweepResult, objective: str) -> Any | None:
    """Draw all trials; return the colours of those coloured by value, None if there are none."""
    down, across = result.space
    rows, columns = len(down.values or ()), len(across.values or ())
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(rows - 0.5, -0.5)
    value_at, alike = result.value_at(objective), result.indistinguishable(objective)
    best, highest = result.best(objective), max(value_at.values(), default=None)
    scaled = [value for index, value in value_at.items() if index not in alike]
    scale = None
    if scaled and highest is not None:
        scale = value_scale(min(*scaled, highest - (0.0 if alike else LEAST_SPAN)), highest)
    empty = {(row, column): "left" for row in range(rows) for column in range(columns)}
    for index, trial in enumerate(result.trials):
        cell = _index(down, trial.settings[down.key]), _index(across, trial.settings[across.key])
        empty[cell] = trial.state
        if index not in value_at:
            continue
        del empty[cell]
        colour, ink = colours()(ALIKE), INK
        if scale is not None and index not in alike:
            colour, share = scale.to_rgba(value_at[index]), float(scale.norm(value_at[index]))
            ink = "white" if LOWEST + (HIGHEST - LOWEST) * share < 0.5 else INK
        axes.add_patch(_square(*cell, facecolor=colour, edgecolor="white", linewidth=1.5))
        axes.text(cell[1], cell[0], f"{value_at[index]:.3f}", ha="center", va="center", color=ink)
        if best is not None and value_at[index] == value_at[best]:
            frame = _square(*cell, facecolor="none", edgecolor=BEST, linewidth=2.2, zorder=5)
            frame.set_clip_on(False)  # the panel's edge would hide half of the frame's line
            axes.add_patch(frame)
    for (row, column), state in empty.items():
        _empty(axes, row, column, state)
    return scale


def _empty(axes: Any, row: int, column: int, state: str) -> None:
    blank = _square(row, column, facecolor="white", edgecolor=GRID, linewidth=0, zorder=0.5)
    blank.set_hatch(HATCHES.get(state, ""))
    axes.add_patch(blank)
    words, box = "not run" if state == "left" else state, {"facecolor": "white", "pad": 1.5}
    style = {"ha": "center", "va": "center", "fontsize": 8, "style": "italic", "color": FAINT}
    axes.text(column, row, words, bbox={**box, "edgecolor": "none"}, **style)


def _index(axis: Axis, value: object) -> int:
    """Return the place of `value` among the axis's values, where 1 does not equal True."""
    values = axis.values or ()
    return [(type(listed) is bool, listed) for listed in values].index((type(value) is bool, value))  # type: ignore[arg-type]


def _square(row: float, column: float, **style: Any) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1, 1, **style)


def colours() -> Any:
    """Return cividis: even in lightness, the same with colour vision deficiency."""
    import matplotlib as mpl

    return mpl.colormaps["cividis"]


def value_scale(low: float, high: float) -> Any:
    """Return matplotlib's mapping from values to colours."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    colormap = ListedColormap(colours()(np.linspace(LOWEST, HIGHEST, 128)))
    return ScalarMappable(Normalize(low, high), colormap)


def document_of(result: SweepResult, provenance: Provenance) -> Document:
    """Return the report of a sweep's results."""
    tables = sweep_tables(result)
    return Document(
        name="sweep",
        title=tables[0].title,
        provenance=provenance,
        data=vars(result),
        tables=tables,
        sheets={"sweep": tables[0]},
        figures=_figures(result),
    )


def _figures(result: SweepResult) -> tuple[Figure, ...]:
    """Return the heat map of two parameters with lists of values; other spaces have none."""
    axes = result.space
    grid = len(axes) == 2 and all(
        axis.values is not None and all(axis.key in trial.settings for trial in result.trials)
        for axis in axes
    )
    return (Figure("heatmap", partial(draw_heatmaps, result)),) if grid else ()
