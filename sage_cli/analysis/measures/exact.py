"""Exact chances of right texts: worked pass@k without sampling error, over temperatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from typing_extensions import TypedDict

from sage_cli.analysis.analysis import Analysis, Inputs, Options
from sage_cli.analysis.tables import PolicyMeans
from sage_cli.evaluation.exact.chances import Chances
from sage_cli.evaluation.exact.others import Others
from sage_cli.metrics.comparisons.equal_accuracy import (
    EqualAccuracy,
    NotReached,
    Points,
    equal_accuracy,
)
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.counts.exact import exact_pass_at_k, worked_pass_at_k
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.panels import draw_trade
from sage_cli.reports.tables.table import Measure, Record, Row, Table, columns, to_records


class ExactData(TypedDict):
    """Worked pass@k and its differences to the first policy, and what was compared at equal pass@1.

    `values` are named by temperature and measure. `other_texts` is the share of right samples that
    are none of the listed texts, where samples are stored.
    """

    values: list[Record]
    differences: list[Record]
    equal_accuracy: list[Record]
    other_texts: dict[str, float]
    temperatures: list[float]
    k: list[int]


def exact(inputs: Inputs) -> Document:
    """Return worked pass@k of each policy, by way and temperature, and at equal pass@1."""
    options = inputs.options
    means = PolicyMeans("measure", options)
    first = next(iter(inputs.chances.values()))
    most = max(options.ks)
    curves: dict[str, dict[str, FloatArray]] = {}
    for benchmark in dict.fromkeys(name for name, _ in inputs.chances):
        policies = {own: of for (name, own), of in inputs.chances.items() if name == benchmark}
        others = {own: inputs.others.get((benchmark, own)) for own in policies}
        _add_decoding(means, benchmark, policies, others, options)
        for temperature in (t for t in first.temperatures if t != options.temperature):
            for k in (1, most):
                values = {
                    own: _worked(one, [temperature], k)[:, 0] for own, one in policies.items()
                }
                means.add(benchmark, f"T {temperature:g}: worked pass@{k}", values)
        curves[benchmark] = {own: _curve(one, most) for own, one in policies.items()}
    equal = _at_equal_accuracy(inputs, most)
    figures = []
    if len(first.temperatures) > 1:
        figures.append(Figure("exact", partial(draw_trade, curves, most)))
    if along := paths(inputs.chances, options.temperature, most):
        figures.append(Figure("steps", partial(draw_trade, along, most)))
    return Document(
        name="exact",
        title="exact chances of right texts",
        data={
            "values": means.records("value"),
            "differences": means.difference_records(),
            "equal_accuracy": to_records(equal),
            "other_texts": {
                f"{own} on {name}": of.share for (name, own), of in inputs.others.items()
            },
            "temperatures": list(first.temperatures),
            "k": list(options.ks),
        },
        tables=(
            *means.tables("worked pass@k, from exact chances", heading="measure"),
            *([equal] if equal.rows else []),
        ),
        sheets={"exact": means.sheet("value")},
        figures=tuple(figures),
        notes=_notes(inputs, most),
    )


def _add_decoding(
    means: PolicyMeans,
    benchmark: str,
    policies: dict[str, Chances],
    others: dict[str, Others | None],
    options: Options,
) -> None:
    """Add what is measured at the temperature of the evaluation."""
    at, most = options.temperature, max(options.ks)
    first = next(iter(policies.values()))

    def add(name: str, of: Any, k: int) -> None:
        values = {own: worked_pass_at_k(of(one), [k])[:, 0] for own, one in policies.items()}
        means.add(benchmark, name, values)

    for k in options.ks:
        add(f"worked pass@{k}", lambda one: one.at(at), k)
    if first.guesses:
        add(f"worked pass@{most} without guesses", lambda one: one.at(at, guesses=False), most)
    for way in first.ways:
        add(f"chance of {way}", lambda one, way=way: one.of_way(at, way), 1)
    known = {own: of for own, of in others.items() if of is not None}
    if known and len(known) == len(policies):
        for k in options.ks:
            values = {
                own: exact_pass_at_k(policies[own].at(at), of.m_P, of.c_P, [k])[:, 0]
                for own, of in known.items()
            }
            if not any(np.isnan(value_P).any() for value_P in values.values()):
                means.add(benchmark, f"pass@{k}, other texts from samples", values)


def _worked(chances: Chances, temperatures: Sequence[float], k: int) -> FloatArray:
    """Return each problem's worked pass@k at each temperature, shape (P, T)."""
    return np.stack([worked_pass_at_k(chances.at(t), [k])[:, 0] for t in temperatures], axis=1)


def _curve(chances: Chances, k: int) -> FloatArray:
    """Return (T, 2): mean worked pass@1 and pass@k at each temperature."""
    each = [_worked(chances, chances.temperatures, one).mean(axis=0) for one in (1, k)]
    return np.stack(each, axis=1)


def paths(
    named: Mapping[tuple[str, str], Chances], at: float, k: int
) -> dict[str, dict[str, FloatArray]]:
    """Return benchmark -> run -> (steps, 2): mean worked pass@1 and pass@k along the training.

    `named` are by benchmark and label; checkpoints are labelled RUN@STEP and come in the order in
    which they were named. A run with fewer than two of them has no path.
    """
    found: dict[str, dict[str, list[FloatArray]]] = {}
    for (benchmark, label), chances in named.items():
        run = label.partition("@")[0]
        point = np.array([_worked(chances, [at], one).mean() for one in (1, k)])
        found.setdefault(benchmark, {}).setdefault(run, []).append(point)
    several = {
        benchmark: {run: np.stack(points) for run, points in runs.items() if len(points) > 1}
        for benchmark, runs in found.items()
    }
    return {benchmark: runs for benchmark, runs in several.items() if runs}


def _at_equal_accuracy(inputs: Inputs, k: int) -> Table:
    """Return each policy less the first at equal pass@1, if a temperature reaches it."""
    heads = columns(
        f"benchmark, policy, equal pass@1, pass@{k} less the first, T, first's T, "
        "resamples without it"
    )
    rows = []
    for benchmark in dict.fromkeys(name for name, _ in inputs.chances):
        own = [(label, of) for (name, label), of in inputs.chances.items() if name == benchmark]
        if own[0][1].temperatures[-1] <= inputs.options.temperature:
            continue
        for label, chances in own[1:]:
            found = compared(chances, own[0][1], k, inputs.options)
            rows.append(Row((benchmark, label, *_cells(found))))
    return Table("at equal pass@1, over temperatures", heads, tuple(rows))


def _cells(found: EqualAccuracy | NotReached) -> tuple[Measure | str, ...]:
    if isinstance(found, NotReached):
        return "", found.reason, "", "", ""
    difference = Measure(found.difference, interval=(found.low, found.high), signed=True)
    reached = [Measure(t, digits=2) for t in (found.at, found.best_at)]
    return (
        Measure(found.accuracy),
        difference,
        *reached,
        f"{found.unreached:,} of {found.resamples:,}",
    )


def compared(
    policy: Chances, other: Chances, k: int, options: Options
) -> EqualAccuracy | NotReached:
    """Return the policy less the other one at equal worked pass@1, over temperatures."""

    def points(one: Chances) -> Points:
        return Points.of(*(_worked(one, one.temperatures, of) for of in (1, k)))

    grid = np.asarray(policy.temperatures)
    at = policy.temperatures.index(options.temperature)
    return equal_accuracy(points(policy), [points(other)], grid, at, options.resampling)


def _notes(inputs: Inputs, k: int) -> tuple[str, ...]:
    first = next(iter(inputs.chances.values()))
    ways = ", ".join(first.ways)
    guesses = f"; {', '.join(sorted(first.guesses))} is a guess" if first.guesses else ""
    notes = [
        f"worked pass@k: the chance that one of k samples is a listed right text ({ways}"
        f"{guesses}), computed from the policy's probabilities; right answers by other texts are "
        "not in it",
        "of the splits that a tokenizer of pieces allows a text has the usual one alone",
    ]
    notes += [
        f"{own} on {name}: {of.share:.1%} of {of.right:,} right samples are none of these texts"
        for (name, own), of in inputs.others.items()
    ]
    notes += [
        f"{own} on {name}: {of.respelt:,} samples are stored without token ids, so their texts' "
        "usual tokens stand for them; right ones in other tokens are then not counted, and "
        "pass@k with other texts from samples is too low"
        for (name, own), of in inputs.others.items()
        if of.respelt
    ]
    if len(first.temperatures) > 1:
        notes.append(
            "at equal pass@1 the policy that is right more often at T "
            f"{inputs.options.temperature:g} is taken at a higher temperature; worked pass@{k} is "
            "interpolated, and the interval is over problems"
        )
    return tuple(notes)


EXACT = Analysis(
    "exact",
    "pass@k from the exact chances of right texts, over temperatures, without sampling",
    exact,
    chances=True,
    options=frozenset({"temperatures", "k"}),
)
