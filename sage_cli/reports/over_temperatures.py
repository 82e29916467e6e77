"""The report of policies over temperatures, among them the comparison at equal pass@1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import nan
from typing import Any

from sage_cli.metrics.equal_accuracy import (
    EqualAccuracy,
    NotReached,
    Points,
    best_temperatures,
    equal_accuracy,
)
from sage_cli.metrics.estimators import FloatArray
from sage_cli.metrics.intervals import Resampling, gaffke
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate, p_value
from sage_cli.reports.figures.panels import draw_points
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.table_files import Record, to_records
from sage_cli.reports.tables import Column, Row, Table, columns

OWN, INITIAL, BEST = "the smaller of both", "the initial policy's", "each at its best T"
"""The pass@1 at which two policies are compared: three targets, side by side."""
_Policies = Mapping[str, FloatArray]
"""pass@k of one benchmark by policy, each (T, P, K)."""


@dataclass(frozen=True, eq=False)
class OverTemperatures:
    """pass@k by (benchmark, policy's label), each (T, P, K): T ascending temperatures.

    `at` is the place of the evaluation's temperature, whose pass@1 counts. `initial_P` has the
    pass@1 of their initial policy there on each problem, by benchmark, where they share one.
    """

    passed: Mapping[tuple[str, str], FloatArray]
    temperatures: tuple[float, ...]
    at: int
    ks: tuple[int, ...]
    provenance: Provenance
    initial_P: Mapping[str, FloatArray] = field(default_factory=dict)


def over_temperatures_document(measured: OverTemperatures, resampling: Resampling) -> Document:
    """Return the report of policies over temperatures, with intervals over problems."""
    by_benchmark: dict[str, dict[str, FloatArray]] = {}
    for (benchmark, policy), passed_TPK in measured.passed.items():
        by_benchmark.setdefault(benchmark, {})[policy] = passed_TPK
    benchmarks = by_benchmark.items()
    values = {name: _values(name, policies, measured, resampling) for name, policies in benchmarks}
    best = {name: _best(name, policies, measured) for name, policies in benchmarks}
    equal = {
        (name, *pair): table
        for name, policies in benchmarks
        for pair, table in _equal(name, policies, measured, resampling).items()
    }
    most = max(measured.ks)
    ends = [measured.ks.index(1), measured.ks.index(most)]
    curves = {
        name: {policy: passed.mean(axis=1)[:, ends].T for policy, passed in policies.items()}
        for name, policies in benchmarks
    }
    draw = partial(draw_points, curves, ("pass@1", f"pass@{most}"), joined=True)
    data: dict[str, Any] = {
        "values": _records(values),
        "best": _records(best),
        "equal_accuracy": [
            {"benchmark": name, "policy": policy, "less": other, **record}
            for (name, policy, other), table in equal.items()
            for record in to_records(table)
        ],
        "temperatures": list(measured.temperatures),
        "k": list(measured.ks),
    }
    return Document(
        name="temperatures",
        title="pass@k over temperatures",
        data=data,
        provenance=measured.provenance,
        tables=(*values.values(), *best.values(), *equal.values()),
        figures=(Figure("temperatures", draw),),
        notes=_notes(resampling.confidence, measured.temperatures[measured.at]),
    )


def _records(tables: Mapping[str, Table]) -> list[Record]:
    """Return the rows of each benchmark's table, with the benchmark's name."""
    return [
        {"benchmark": name, **record}
        for name, table in tables.items()
        for record in to_records(table)
    ]


def _values(
    benchmark: str, policies: _Policies, measured: OverTemperatures, resampling: Resampling
) -> Table:
    heads = (*columns("policy, T"), *(Column(f"pass@{k}") for k in measured.ks))
    rows = []
    for policy, passed_TPK in policies.items():
        for temperature, passed_PK in zip(measured.temperatures, passed_TPK, strict=True):
            band = gaffke(passed_PK, (0, 1), resampling)
            ends = zip(passed_PK.mean(axis=0), band.low_K, band.high_K, strict=True)
            cells = (Estimate(float(m), interval=(float(a), float(b))) for m, a, b in ends)
            rows.append(Row((policy, Estimate(temperature, digits=2), *cells), section=policy))
    return Table(f"pass@k on {benchmark}, by temperature", heads, tuple(rows))


def _best(benchmark: str, policies: _Policies, measured: OverTemperatures) -> Table:
    rows = []
    for policy, passed_TPK in policies.items():
        mean_TK = passed_TPK.mean(axis=1)
        for column, k in enumerate(measured.ks):
            best = int(mean_TK[:, column].argmax())
            value = Estimate(float(mean_TK[best, column]))
            cells = policy, k, Estimate(measured.temperatures[best], digits=2), value
            rows.append(Row(cells, section=policy))
    heads = columns("policy, k, best T, pass@k there")
    return Table(f"each policy at its best temperature on {benchmark}", heads, tuple(rows))


def _equal(
    benchmark: str, policies: _Policies, measured: OverTemperatures, resampling: Resampling
) -> dict[tuple[str, str], Table]:
    """Return by pair of policies a table of differences, a row for each target and k."""
    temperatures, at = measured.temperatures, measured.at
    if at == len(temperatures) - 1 or len(policies) < 2:
        return {}
    heads = columns("target, k, pass@1, difference, p, T, other T, unreached")
    initial_P = measured.initial_P.get(benchmark)
    *others, (last, last_TPK) = policies.items()
    tables = {}
    for policy, passed_TPK in others:
        rows = []
        for k in (k for k in measured.ks if k > 1):
            first, second = (_points(p_TPK, measured.ks, k) for p_TPK in (passed_TPK, last_TPK))
            both = first, second, temperatures
            gaps = {OWN: equal_accuracy(*both, at, resampling)}
            if initial_P is not None:
                gaps[INITIAL] = equal_accuracy(*both, at, resampling, initial_P)
            gaps[BEST] = best_temperatures(*both, resampling)
            rows += [Row((target, k, *gap_cells(gap))) for target, gap in gaps.items()]
        rows.sort(key=lambda row: (OWN, INITIAL, BEST).index(row.cells[0]))
        title = f"{policy} − {last} on {benchmark}, at equal pass@1"
        tables[policy, last] = Table(title, heads, tuple(rows))
    return tables


def _points(passed_TPK: FloatArray, ks: Sequence[int], k: int) -> Points:
    """Return pass@1 and pass@k of each problem at each temperature."""
    return Points(passed_TPK[:, :, ks.index(1)].T, passed_TPK[:, :, ks.index(k)].T)


def gap_cells(gap: EqualAccuracy | NotReached) -> tuple[Estimate | str, ...]:
    """Return pass@1, difference, p, both places, and the share of unreached resamples."""
    if isinstance(gap, NotReached):
        return Estimate(nan), gap.reason, *[Estimate(nan)] * 4
    return (
        Estimate(gap.accuracy),
        Estimate(gap.difference, interval=(gap.low, gap.high), signed=True),
        p_value(gap.p),
        *(Estimate(t, digits=2) for t in (gap.at, gap.other_at)),
        Estimate(gap.unreached / gap.resamples, digits=3),
    )


def _notes(confidence: float, at: float) -> tuple[str, ...]:
    return (
        f"{100 * confidence:g}% intervals over problems; they describe these models",
        f"{OWN}: the policy that is correct more often at T {at:g} is compared at a higher "
        "temperature, at which its pass@1 equals the other's; pass@k is interpolated there",
        f"{INITIAL}: both are compared at the temperatures where they reach its pass@1 at T "
        f"{at:g}; {BEST}: only pass@k counts, and the two have different pass@1. Report all "
        "targets",
        "unreached: the share of resampled sets of problems on which no temperature reaches that "
        "pass@1",
        "the best temperature was chosen on these problems, so its value is slightly too high",
    )
