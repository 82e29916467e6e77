"""The reports of pass@k: curves, and policies over temperatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import nan
from typing import Any

from typing_extensions import TypedDict

from sage_cli.metrics import Curve
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.equal_accuracy import (
    EqualAccuracy,
    NotReached,
    Points,
    best_temperatures,
    equal_accuracy,
)
from sage_cli.metrics.intervals import Resampling, gaffke
from sage_cli.reports.document import Document, Figure, Provenance, SeedCounts, grade_notes, record
from sage_cli.reports.figures import draw_curves, draw_points
from sage_cli.reports.tables import Column, Estimate, Record, Row, Table, columns, to_records


@dataclass(frozen=True)
class Line:
    """A policy's curve on a benchmark with its measurements, one for each evaluation seed.

    Curves from files of counts have no measurements.
    """

    policy: str
    benchmark: str
    curve: Curve
    measured: tuple[SeedCounts, ...] = ()


CurveJson = TypedDict(
    "CurveJson",
    {
        "policy": str,
        "benchmark": str,
        "pass@k": FloatArray,
        "low": FloatArray,
        "high": FloatArray,
        "seeds": list[dict[str, Any]],
    },
)
"""pass@k with its band, a value for each k; `seeds` is empty for files of counts."""


def passk_document(
    lines: Sequence[Line], provenance: Provenance, shown: Sequence[int] | None = None
) -> Document:
    """Return the report of curves with the same ks: a table per benchmark, and a picture.

    Tables show the powers of two among `shown`, by default all ks; picture, CSV and JSON every k.
    """
    panels: dict[str, dict[str, Curve]] = {}
    for line in lines:
        panels.setdefault(line.benchmark, {})[line.policy] = line.curve
    ks = lines[0].curve.ks
    return Document(
        name="passk",
        title=f"pass@k on {', '.join(panels)}",
        provenance=provenance,
        data={
            "k": list(ks),
            "confidence": lines[0].curve.confidence,
            "curves": [*map(curve_json, lines)],
        },
        tables=tuple(
            passk_table(benchmark, curves, powers_of_two(ks if shown is None else shown))
            for benchmark, curves in panels.items()
        ),
        sheets={"passk": _every_k(lines)},
        figures=(Figure("passk", partial(draw_curves, panels)),),
        notes=grade_notes([counted for line in lines for counted in line.measured]),
    )


def passk_table(benchmark: str, curves: Mapping[str, Curve], ks: Sequence[int]) -> Table:
    """Return a row per k of `ks`, a column per policy: pass@k with its band."""
    first = next(iter(curves.values()))
    heads = (Column("k"), *(Column("pass@k", policy) for policy in curves))
    rows = tuple(Row((k, *(value_at(curve, k) for curve in curves.values()))) for k in ks)
    problems = sorted({curve.problems for curve in curves.values()})
    note = f"{100 * first.confidence:g} % bands over {' or '.join(map(str, problems))} problems"
    note = note if problems != [1] else "no bands: one problem alone says nothing about others"
    return Table(f"pass@k on {benchmark}", heads, rows, (note,))


def powers_of_two(ks: Sequence[int]) -> list[int]:
    """Return ks without those next to others that are no powers of two; all if none is left.

    `1..256` becomes nine ks, `1,10,100` stays.
    """
    return [k for k in ks if k & (k - 1) == 0 or not {k - 1, k + 1} & {*ks}] or list(ks)


def curve_json(line: Line) -> CurveJson:
    """Return a curve and its measurements as JSON data."""
    return {
        "policy": line.policy,
        "benchmark": line.benchmark,
        "pass@k": line.curve.mean_K,
        "low": line.curve.low_K,
        "high": line.curve.high_K,
        "seeds": [*map(record, line.measured)],
    }


def value_at(curve: Curve, k: int) -> Estimate:
    """Return pass@k with its interval."""
    mean, low, high = curve.at(k)
    return Estimate(mean, interval=(low, high))


def _every_k(lines: Sequence[Line]) -> Table:
    rows = tuple(
        Row((line.policy, line.benchmark, k, *map(Estimate, line.curve.at(k))))
        for line in lines
        for k in line.curve.ks
    )
    return Table("pass@k", columns("policy, benchmark, k, pass@k, low, high"), rows)


OWN, INITIAL, BEST = "the smaller of both", "the initial policy's", "each at its best T"
"""The pass@1 at which two policies are compared: three targets, side by side."""

Policies = Mapping[str, FloatArray]
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
    benchmark: str, policies: Policies, measured: OverTemperatures, resampling: Resampling
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


def _best(benchmark: str, policies: Policies, measured: OverTemperatures) -> Table:
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
    benchmark: str, policies: Policies, measured: OverTemperatures, resampling: Resampling
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
        title = f"{policy} less {last} on {benchmark}, at equal pass@1"
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
        Estimate(gap.p, tiny=True),
        *(Estimate(t, digits=2) for t in (gap.at, gap.other_at)),
        Estimate(gap.unreached / gap.resamples, digits=3),
    )


def _notes(confidence: float, at: float) -> tuple[str, ...]:
    return (
        f"{100 * confidence:g} % intervals over problems, about these very models",
        f"{OWN}: the policy that is right more often at T {at:g} is taken at a higher "
        "temperature, where its pass@1 is the other's; pass@k is interpolated there",
        f"{INITIAL}: both are taken where they have the pass@1 that it has at T {at:g}; {BEST}: "
        "pass@k alone counts, and the two have different pass@1. Report all targets",
        "unreached: the share of resampled problems on which no temperature reaches that pass@1",
        "the best temperature was chosen on these problems, so its value is a little lucky",
    )
