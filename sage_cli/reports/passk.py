"""The report of pass@k curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from typing_extensions import TypedDict

from sage_cli.metrics import Curve
from sage_cli.metrics.counts import SeedCounts
from sage_cli.metrics.estimators import FloatArray
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.estimate import Estimate
from sage_cli.reports.figures.curves import draw_curves
from sage_cli.reports.grades import grade_notes, record
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables import Column, Row, Table, columns

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


@dataclass(frozen=True)
class Line:
    """A policy's curve on a benchmark with its measurements, one for each evaluation seed.

    Curves from files of counts have no measurements.
    """

    policy: str
    benchmark: str
    curve: Curve
    measured: tuple[SeedCounts, ...] = ()


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
    measured = [counted for line in lines for counted in line.measured]
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
        notes=(*grade_notes(measured), *_unsure(measured, max(ks if shown is None else shown))),
    )


def _unsure(measured: Sequence[SeedCounts], k: int) -> tuple[str, ...]:
    """Return a note if `k` is above half of a problem's samples: its error can't be estimated."""
    n = min((int(counted.counts.n_P.min()) for counted in measured), default=2 * k)
    if n < 2:  # one sample has a pass@1 alone, which has an interval
        return ()
    return (f"do not quote pass@k for k above {n // 2}, which is half of n",) if 2 * k > n else ()


def whole_sample_words(n: int) -> str:
    """Return what is to be said of k = n samples."""
    return (
        f"at k = n = {n} each problem counts as 0 or 1: to quote it, draw at least {2 * n} samples"
    )


def passk_table(benchmark: str, curves: Mapping[str, Curve], ks: Sequence[int]) -> Table:
    """Return a row per k of `ks`, a column per policy: pass@k with its band."""
    first = next(iter(curves.values()))
    heads = (Column("k"), *(Column("pass@k", policy) for policy in curves))
    rows = tuple(Row((k, *(value_at(curve, k) for curve in curves.values()))) for k in ks)
    problems = sorted({curve.problems for curve in curves.values()})
    counted = " or ".join(map(str, problems))
    note = f"pointwise {100 * first.confidence:g}% bands over {counted} problems"
    note = note if problems != [1] else "there are no bands, because there is only one problem"
    return Table(f"pass@k on {benchmark}", heads, rows, (note,))


def powers_of_two(ks: Sequence[int]) -> list[int]:
    """Return ks without those next to others that are not powers of two; all if none is left.

    `1..256` becomes nine ks, `1,10,100` stays.
    """
    listed = {*ks}  # once: a file may have 100,000 samples of a problem, and as many ks
    return [k for k in ks if k & (k - 1) == 0 or not {k - 1, k + 1} & listed] or list(ks)


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
    # a curve may have 100,000 ks: it is walked along, because `at` searches for each
    rows = tuple(
        Row((line.policy, line.benchmark, k, *map(Estimate, values)))
        for line in lines
        for k, *values in zip(
            line.curve.ks,
            line.curve.mean_K.tolist(),
            line.curve.low_K.tolist(),
            line.curve.high_K.tolist(),
            strict=True,
        )
    )
    return Table("pass@k", columns("policy, benchmark, k, pass@k, low, high"), rows)
