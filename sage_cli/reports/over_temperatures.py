"""The report of policies over temperatures: pass@k, each one's best, and equal pass@1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan

from typing_extensions import TypedDict

from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.equal_accuracy import EqualAccuracy, NotReached, Points, equal_accuracy
from sage_cli.metrics.intervals import Resampling, gaffke
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures import draw_tradeoff
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables import Column, Estimate, Record, Row, Table, columns, to_records

Policies = Mapping[str, FloatArray]
"""pass@k of one benchmark by policy, each (T, P, K)."""


@dataclass(frozen=True, eq=False)
class OverTemperatures:
    """pass@k by (benchmark, policy's label), each (T, P, K): T ascending temperatures.

    `at` is the place of the evaluation's temperature, whose pass@1 counts.
    """

    passed: Mapping[tuple[str, str], FloatArray]
    temperatures: tuple[float, ...]
    at: int
    ks: tuple[int, ...]
    provenance: Provenance


class OverTemperaturesData(TypedDict):
    """pass@k at each temperature, the temperature with the highest mean for each k, and the
    differences at equal pass@1 from the last policy named."""

    values: list[Record]
    best: list[Record]
    equal_accuracy: list[Record]
    temperatures: list[float]
    k: list[int]


def over_temperatures_document(found: OverTemperatures, how: Resampling) -> Document:
    """Return the report of what was found, with intervals of `how`."""
    passed, temperatures, at = found.passed, found.temperatures, found.at
    ks = found.ks
    names = list(dict.fromkeys(name for name, _ in passed))
    of = {
        name: {own: one for (where, own), one in passed.items() if where == name} for name in names
    }
    values = {name: _values(name, of[name], temperatures, ks, how) for name in names}
    best = {name: _best(name, of[name], temperatures, ks) for name in names}
    equal = {
        (name, pair): table
        for name in names
        for pair, table in _equal(name, of[name], temperatures, at, ks, how).items()
    }
    most = max(ks)
    ends = [list(ks).index(1), list(ks).index(most)]
    curves = {
        name: {own: one.mean(axis=1)[:, ends] for own, one in of[name].items()} for name in names
    }
    data: OverTemperaturesData = {
        "values": _records(values),
        "best": _records(best),
        "equal_accuracy": [
            {"benchmark": name, "policy": policy, "less": other, **record}
            for (name, (policy, other)), table in equal.items()
            for record in to_records(table)
        ],
        "temperatures": list(temperatures),
        "k": list(ks),
    }
    return Document(
        name="temperatures",
        title="pass@k over temperatures",
        data=data,
        provenance=found.provenance,
        tables=(*values.values(), *best.values(), *equal.values()),
        figures=(Figure("temperatures", partial(draw_tradeoff, curves, most)),),
        notes=_notes(how.confidence, temperatures[at]),
    )


def _records(tables: Mapping[str, Table]) -> list[Record]:
    """Return the rows of each benchmark's table, with the benchmark's name."""
    return [
        {"benchmark": name, **record}
        for name, table in tables.items()
        for record in to_records(table)
    ]


def _values(
    name: str, of: Policies, temperatures: Sequence[float], ks: Sequence[int], how: Resampling
) -> Table:
    heads = (*columns("policy, T"), *(Column(f"pass@{k}") for k in ks))
    rows = []
    for policy, passed_TPK in of.items():
        for temperature, passed_PK in zip(temperatures, passed_TPK, strict=True):
            band = gaffke(passed_PK, (0, 1), how)
            ends = zip(passed_PK.mean(axis=0), band.low_K, band.high_K, strict=True)
            cells = (Estimate(float(m), interval=(float(a), float(b))) for m, a, b in ends)
            rows.append(Row((policy, Estimate(temperature, digits=2), *cells), section=policy))
    return Table(f"pass@k on {name}, by temperature", heads, tuple(rows))


def _best(name: str, of: Policies, temperatures: Sequence[float], ks: Sequence[int]) -> Table:
    rows = []
    for policy, passed_TPK in of.items():
        mean_TK = passed_TPK.mean(axis=1)
        for column, k in enumerate(ks):
            place = int(mean_TK[:, column].argmax())
            value = Estimate(float(mean_TK[place, column]))
            cells = policy, k, Estimate(temperatures[place], digits=2), value
            rows.append(Row(cells, section=policy))
    heads = columns("policy, k, best T, pass@k there")
    return Table(f"each policy at its best temperature on {name}", heads, tuple(rows))


def _equal(
    name: str,
    of: Policies,
    temperatures: Sequence[float],
    at: int,
    ks: Sequence[int],
    how: Resampling,
) -> dict[tuple[str, str], Table]:
    """Return by pair of policies a table of differences, a row for each k."""
    if at == len(temperatures) - 1 or len(of) < 2:
        return {}
    heads = columns("k, pass@1, difference, p, T, other T, unreached")
    *policies, (other, other_TPK) = of.items()
    tables = {}
    for policy, passed_TPK in policies:
        rows = []
        for k in (k for k in ks if k > 1):
            first, second = (_points(one, list(ks), k) for one in (passed_TPK, other_TPK))
            found = equal_accuracy(first, second, temperatures, at, how)
            rows.append(Row((k, *_cells(found))))
        title = f"{policy} less {other} on {name}, at equal pass@1"
        tables[policy, other] = Table(title, heads, tuple(rows))
    return tables


def _points(passed_TPK: FloatArray, ks: list[int], k: int) -> Points:
    """Return pass@1 and pass@k of each problem at each temperature."""
    return Points(passed_TPK[:, :, ks.index(1)].T, passed_TPK[:, :, ks.index(k)].T)


def _cells(found: EqualAccuracy | NotReached) -> tuple[Estimate | str, ...]:
    if isinstance(found, NotReached):
        return Estimate(nan), found.reason, *[Estimate(nan)] * 4
    return (
        Estimate(found.accuracy),
        Estimate(found.difference, interval=(found.low, found.high), signed=True),
        Estimate(found.p, tiny=True),
        *(Estimate(t, digits=2) for t in (found.at, found.other_at)),
        Estimate(found.unreached / found.resamples, digits=3),
    )


def _notes(confidence: float, at: float) -> tuple[str, ...]:
    return (
        f"{100 * confidence:g} % intervals over problems, about these very models",
        f"equal pass@1: the policy that is right more often at T {at:g} is taken at a higher "
        "temperature, where its pass@1 is the other's; pass@k is interpolated there",
        "unreached: the share of resampled problems on which no temperature reaches that pass@1",
        "the best temperature was chosen on these problems, so its value is a little lucky",
    )
