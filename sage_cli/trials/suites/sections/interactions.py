"""Interactions of a suite: gains by method from exact chances, and what is beyond the first's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from sage_cli.metrics import parse_ks
from sage_cli.metrics.comparisons.over_initial_policies import FEWEST, Interactions, interactions
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.exact import worked_pass_at_k
from sage_cli.metrics.intervals.distributions import holm
from sage_cli.metrics.intervals.interval import Interval, Resampling
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.dot_plot import draw_dot_plot
from sage_cli.reports.tables.table import Measure, Row, Table, columns, to_records
from sage_cli.trials.suites.comparisons import Interaction
from sage_cli.trials.suites.exact import ReadReplicate
from sage_cli.trials.suites.results import PartResult

DIGITS = 4
THESE, OTHERS = "these policies", "other policies"
Read = Mapping[str, Sequence[ReadReplicate]]


@dataclass(frozen=True, eq=False)
class Found:
    """An interaction on a benchmark at a k; p-values are of all interactions of the section."""

    declared: Interaction
    benchmark: str
    k: int
    estimate: Interactions
    trainings: int


def interactions_section(result: PartResult) -> Document:
    """Return the section of a suite's interactions, of the methods that are there."""
    evaluation = result.methods[0].trial.config.evaluation
    how = Resampling(evaluation.confidence, evaluation.bootstrap)
    ks, found, notes = parse_ks(result.suite.k), [], []
    for declared in result.suite.interactions:
        there = {
            method: pair
            for method, pair in declared.gains.items()
            if all(map(result.read.get, pair))
        }
        if absent := [method for method in declared.gains if method not in there]:
            notes.append(f"{declared.name}: not there yet: {', '.join(absent)}")
        if len(there) > 1 and next(iter(declared.gains)) in there:
            found += _found(declared, there, result.read, ks, how)
    table = _table(found)
    return Document(
        name="interactions",
        title="Interactions: is the gain the same with every method?",
        data={
            "declared": [one.model_dump(mode="json") for one in result.suite.interactions],
            "interactions": to_records(table),
        },
        tables=(table,),
        sheets={"interactions": table},
        figures=tuple(_figure(found, name) for name in dict.fromkeys(_name(one) for one in found)),
        notes=(*notes, *_notes(found)),
    )


def _found(
    declared: Interaction,
    there: Mapping[str, tuple[str, str]],
    read: Read,
    ks: Sequence[int],
    how: Resampling,
) -> list[Found]:
    """Return the interaction on each benchmark at each k, of replicates that all methods have."""
    by_label = {label: _by_replicate(read[label]) for pair in there.values() for label in pair}
    seeds = dict.fromkeys(key for by in by_label.values() for key in by if key[1] is not None)
    keys = [key for key in seeds if all(_at(by, key) for by in by_label.values())]
    every = [one for by in by_label.values() for key in keys if (one := _at(by, key))]
    found = []
    for benchmark in dict.fromkeys(name for one in every for name in one.end):
        ids = {one.end[benchmark].problem_ids for one in every}
        for k in ks:
            gains = {
                method: _gain([by_label[label] for label in pair], keys, benchmark, k)
                for method, pair in there.items()
            }
            estimate = interactions(gains, how, shared=len(ids) == 1)
            found.append(Found(declared, benchmark, k, estimate, len(keys)))
    return found


Key = tuple[str | None, int | None]
"""An initial policy and a training seed, which the initial policy itself doesn't have."""


def _by_replicate(every: Sequence[ReadReplicate]) -> dict[Key, ReadReplicate]:
    return {
        (one.start, None if one.replicate.is_initial else one.replicate.seed): one for one in every
    }


def _at(by_key: Mapping[Key, ReadReplicate], key: Key) -> ReadReplicate | None:
    """Return the replicate of an initial policy and seed, or that initial policy itself."""
    return by_key.get(key) or by_key.get((key[0], None))


def _gain(
    sides: Sequence[Mapping[Key, ReadReplicate]], keys: Sequence[Key], benchmark: str, k: int
) -> FloatArray:
    """Return the gain in worked pass@k, (Z, P), a mean over an initial policy's seeds."""
    by_start: dict[str | None, list[FloatArray]] = {}
    for key in keys:
        each = (one for side in sides if (one := _at(side, key)))
        first, second = (
            worked_pass_at_k(one.end[benchmark].at(one.temperature), [k])[:, 0] for one in each
        )
        by_start.setdefault(key[0], []).append(first - second)
    return np.stack([np.mean(gains, axis=0) for gains in by_start.values()])


def _name(one: Found) -> tuple[str, str]:
    return one.declared.name, one.benchmark


def _table(found: Sequence[Found]) -> Table:
    """Return a row for each gain, interaction and mean, with both intervals."""
    tests = [one.estimate.these.p_K[_tested(one)] for one in found]
    adjusted = iter(np.asarray(holm(np.concatenate(tests))) if tests else ())
    rows = []
    for one in found:
        estimate = one.estimate
        for place, name in enumerate(estimate.names):
            tested = place in range(estimate.first_interaction, len(estimate.names) - 1)
            ps = (estimate.these.p_K[place], next(adjusted) if tested else np.nan)
            rows.append(
                Row(
                    (
                        one.declared.name, one.benchmark, one.k, name,
                        _measure(estimate, place, estimate.these),
                        _interval(estimate.others, place),
                        *(Measure(float(p), digits=4, tiny=True) for p in ps),
                    ),
                    section=f"{one.declared.name} {one.benchmark} {one.k}",
                )
            )  # fmt: skip
    heads = columns(f"gain, benchmark, k, of, {THESE}, {OTHERS}, p, p (Holm)")
    return Table("Gains, and interactions", heads, tuple(rows))


def _tested(one: Found) -> slice:
    """Return the places of the interactions, without their mean."""
    return slice(one.estimate.first_interaction, len(one.estimate.names) - 1)


def _measure(estimate: Interactions, place: int, interval: Interval) -> Measure:
    ends = (float(interval.low_K[place]), float(interval.high_K[place]))
    return Measure(float(estimate.mean_K[place]), interval=ends, digits=DIGITS, signed=True)


def _interval(interval: Interval, place: int) -> Measure:
    ends = (float(interval.low_K[place]), float(interval.high_K[place]))
    return Measure(float("nan"), interval=ends, digits=DIGITS)


def _figure(found: Sequence[Found], name: tuple[str, str]) -> Figure:
    draw = partial(draw_dot_plot, forest([one for one in found if _name(one) == name]))
    stem = "-".join(["interactions", *name]).replace(" ", "-")
    return Figure(stem, partial(draw, f"{name[0]}: difference in pass@k", zero=True))


def forest(found: Sequence[Found]) -> dict[str, dict[str, dict[str, Measure]]]:
    """Return panels for the smallest and the largest k, a row for each gain and interaction.

    The interval for other policies is drawn where there are enough of them for one of use.
    """
    ks = [one.k for one in found]
    panels: dict[str, dict[str, dict[str, Measure]]] = {}
    for one in found:
        if one.k not in (min(ks), max(ks)):
            continue
        sides = {THESE: one.estimate.these}
        if one.estimate.policies >= FEWEST:
            sides[OTHERS] = one.estimate.others
        panels[f"pass@{one.k}"] = {
            name: {side: _measure(one.estimate, place, of) for side, of in sides.items()}
            for place, name in enumerate(one.estimate.names)
        }
    return panels


def _notes(found: Sequence[Found]) -> list[str]:
    if not found:
        return []
    policies, trainings = found[0].estimate.policies, found[0].trainings
    return [
        f"{_counted(policies, 'initial policy', 'initial policies')}, "
        f"{_counted(trainings, 'training', 'trainings')} of each method, "
        f"{found[0].estimate.problems} problems of each initial policy; a gain is a difference of "
        "worked pass@k, from exact chances",
        f"{THESE}: problems are resampled, initial policies and trainings are those at hand; "
        f"{OTHERS}: other initial policies and trainings, with {policies - 1} degrees of freedom"
        if policies > 1
        else f"{THESE}: problems are resampled; one initial policy says nothing of others",
        "p: of these policies; p (Holm): over all interactions of the table",
    ]


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
