"""pass@k curves as a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import TypedDict

from sage_cli.metrics import Curve, Difference
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.measurement import Measured, MeasuredJson, record, verdict_notes
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.table import Column, Measure, Row, Table


@dataclass(frozen=True)
class Line:
    """One policy's curve on a benchmark, and the measurements, one a seed, behind it.

    Curves of counts that somebody else counted have none.
    """

    policy: str
    benchmark: str
    curve: Curve
    measured: tuple[Measured, ...] = ()


CurveJson = TypedDict(
    "CurveJson",
    {
        "policy": str,
        "benchmark": str,
        "pass@k": FloatArray,
        "low": FloatArray,
        "high": FloatArray,
        "seeds": list[MeasuredJson],
    },
)
"""pass@k with its band, a value for each k; `seeds` is empty where others counted."""


class PasskData(TypedDict):
    """Curves, all at the same ks."""

    k: list[int]
    confidence: float
    curves: list[CurveJson]


def passk_document(
    lines: Sequence[Line], provenance: Provenance, shown: Sequence[int] | None = None
) -> Document:
    """Curves (at the same ks) as a table per benchmark, a picture and every number.

    People's tables show the powers of two among the ks to be shown, all ks where none are named;
    picture, CSV and JSON hold every k.
    """
    panels: dict[str, dict[str, Curve]] = {}
    for line in lines:
        panels.setdefault(line.benchmark, {})[line.policy] = line.curve
    ks = lines[0].curve.ks
    return Document(
        name="passk",
        title=f"pass@k on {', '.join(panels)}",
        provenance=provenance,
        data=_data(lines),
        tables=tuple(
            passk_table(benchmark, curves, powers_of_two(ks if shown is None else shown))
            for benchmark, curves in panels.items()
        ),
        sheets={"passk": _every_k(lines)},
        figures=(curves_figure("passk", panels),),
        notes=verdict_notes([one for line in lines for one in line.measured]),
    )


def passk_table(benchmark: str, curves: Mapping[str, Curve], ks: Sequence[int]) -> Table:
    """A row per k of `ks`, a column per policy: pass@k with its band."""
    first = next(iter(curves.values()))
    columns = (Column("k"), *(Column("pass@k", policy) for policy in curves))
    rows = tuple(Row((k, *(_measure(curve, k) for curve in curves.values()))) for k in ks)
    problems = sorted({curve.problems for curve in curves.values()})
    note = f"{100 * first.confidence:g} % bands over {' or '.join(map(str, problems))} problems"
    return Table(f"pass@k on {benchmark}", columns, rows, (note,))


def powers_of_two(ks: Sequence[int]) -> list[int]:
    """Of ks that follow each other the powers of two (all where there is none); others as they are.

    `1..256` is shown at nine ks, `1,10,100` at three.
    """
    return [k for k in ks if k & (k - 1) == 0 or not {k - 1, k + 1} & {*ks}] or list(ks)


def curves_figure(
    stem: str,
    panels: Mapping[str, Mapping[str, Curve]],
    differences: Mapping[str, Difference] | None = None,
) -> Figure:
    """Benchmark -> label -> curve as a picture to be, with the curves' difference where given."""

    def draw(path: Path) -> None:
        from sage_cli.reports.curves import draw_curves

        draw_curves(panels, path, differences)

    return Figure(stem, draw)


def _data(lines: Sequence[Line]) -> PasskData:
    return {
        "k": list(lines[0].curve.ks),
        "confidence": lines[0].curve.confidence,
        "curves": [
            {
                "policy": line.policy,
                "benchmark": line.benchmark,
                "pass@k": line.curve.mean_K,
                "low": line.curve.low_K,
                "high": line.curve.high_K,
                "seeds": [record(one) for one in line.measured],
            }
            for line in lines
        ],
    }


def _measure(curve: Curve, k: int) -> Measure:
    mean, low, high = curve.at(k)
    return Measure(mean, interval=(low, high))


def _every_k(lines: Sequence[Line]) -> Table:
    columns = tuple(map(Column, ("policy", "benchmark", "k", "pass@k", "low", "high")))
    rows = tuple(
        Row((line.policy, line.benchmark, k, *map(Measure, line.curve.at(k))))
        for line in lines
        for k in line.curve.ks
    )
    return Table("pass@k", columns, rows)
