"""Problem by problem: how often the base solves it, and how often each method."""

from __future__ import annotations

from pathlib import Path

from sage_cli.metrics import pooled
from sage_cli.metrics.counts import FloatArray
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.table import Column, Row, Table
from sage_cli.suite.results import MethodResult, PartResult


def problems(result: PartResult, base: MethodResult) -> Document:
    """A strip per benchmark and method, the base's on top."""
    strips: dict[str, dict[str, FloatArray]] = {}
    moved, each = [], []
    drawn = int(pooled(base.side(base.benchmarks[0]).counts).n_P.min())
    for benchmark in base.benchmarks:
        counts = pooled(base.side(benchmark).counts)
        before_P = counts.c_P / counts.n_P
        strips[benchmark] = {base.label: before_P}
        for method in result.there:
            own = pooled(method.side(benchmark).counts).ordered(counts.problem_ids)
            after_P = own.c_P / own.n_P
            strips[benchmark][method.label] = after_P
            each += [
                Row((benchmark, id_, method.label, int(n), int(c)))
                for id_, n, c in zip(own.problem_ids, own.n_P, own.c_P, strict=True)
            ]
            if method is not base:
                moved.append(_moves(benchmark, method.label, before_P, after_P))
    names = ("benchmark", "method", "never → solved", "solved → never", "rarer", "more often")
    table = Table("Problems by what became of them", tuple(map(Column, names)), tuple(moved))
    sheet = tuple(map(Column, ("benchmark", "problem", "method", "n", "c")))

    def draw(path: Path) -> None:
        from sage_cli.reports.strips import draw_strips

        draw_strips(strips, path)

    return Document(
        name="problems",
        title="Problem by problem, base and trained",
        data={"strips": {name: dict(shares) for name, shares in strips.items()}},
        tables=(table,),
        sheets={"problems": Table("", sheet, tuple(each))},
        figures=(Figure("problems", draw),),
        notes=(
            "a strip's cells are problems, from the base's rarest to its surest: the stronger, the "
            "more of its samples are right; a problem that was never solved has no colour",
            "never and solved are counts of samples, not of what could be: a problem that is "
            f"solved once in {10 * drawn:,} samples mostly goes unseen in {drawn:,}",
        ),
    )


def _moves(benchmark: str, method: str, before_P: FloatArray, after_P: FloatArray) -> Row:
    """How many problems were won and lost, and how many moved by more than a tenth."""
    gained = int(((before_P == 0) & (after_P > 0)).sum())
    lost = int(((before_P > 0) & (after_P == 0)).sum())
    rarer = int((after_P < before_P - 0.1).sum())
    oftener = int((after_P > before_P + 0.1).sum())
    return Row((benchmark, method, gained, lost, rarer, oftener))
