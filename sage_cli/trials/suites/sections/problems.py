"""Problem by problem, the methods beside the base, and the power of these problems."""

from __future__ import annotations

from functools import partial

import numpy as np

from sage_cli.metrics import pooled
from sage_cli.metrics.comparisons.support import grade_correlation
from sage_cli.metrics.counts import FloatArray
from sage_cli.metrics.design.power import CORRELATION, HETEROGENEITY, Design
from sage_cli.reports.document import Document, Figure
from sage_cli.reports.figures.heat_strip import draw_heat_strip
from sage_cli.reports.power import Base, Question, power_document
from sage_cli.reports.provenance import Provenance
from sage_cli.reports.tables.table import Row, Table, columns
from sage_cli.trials.suites.results import MethodResult, PartResult


def problems(result: PartResult, base: MethodResult) -> Document:
    """Return a heat strip per benchmark and method, the base's on top."""
    shares: dict[str, dict[str, FloatArray]] = {}
    moved, each = [], []
    sampled = int(pooled(base.side(base.benchmarks[0]).counts).n_P.min())
    for benchmark in base.benchmarks:
        counts = pooled(base.side(benchmark).counts)
        before_P = counts.c_P / counts.n_P
        shares[benchmark] = {base.label: before_P}
        for method in result.there:
            own = pooled(method.side(benchmark).counts).ordered(counts.problem_ids)
            after_P = own.c_P / own.n_P
            shares[benchmark][method.label] = after_P
            each += [
                Row((benchmark, id_, method.label, int(n), int(c)))
                for id_, n, c in zip(own.problem_ids, own.n_P, own.c_P, strict=True)
            ]
            if method is not base:
                moved.append(_moves(benchmark, method.label, before_P, after_P))
    heads = columns("benchmark, method, never → solved, solved → never, rarer, more often")
    table = Table("Problems by what became of them", heads, tuple(moved))
    sheet = Table("", columns("benchmark, problem, method, n, c"), tuple(each))
    return Document(
        name="problems",
        title="Problem by problem, before and after training",
        data={"strips": shares},
        tables=(table,),
        sheets={"problems": sheet},
        figures=(Figure("problems", partial(draw_heat_strip, shares)),),
        notes=(
            "a strip's cells are problems, from the base's rarest to its surest: the stronger, the "
            "more of its samples are right; a problem that was never solved has no colour",
            "never and solved are counts of samples, not of what could be: a problem that is "
            f"solved once in {10 * sampled:,} samples mostly goes unseen in {sampled:,}",
        ),
    )


def _moves(benchmark: str, method: str, before_P: FloatArray, after_P: FloatArray) -> Row:
    """Return the numbers of problems gained, lost, and changed by more than a tenth."""
    gained = int(((before_P == 0) & (after_P > 0)).sum())
    lost = int(((before_P > 0) & (after_P == 0)).sum())
    rarer = int((after_P < before_P - 0.1).sum())
    oftener = int((after_P > before_P + 0.1).sum())
    return Row((benchmark, method, gained, lost, rarer, oftener))


def power(result: PartResult, base: MethodResult) -> Document:
    """Return the smallest gains that these problems detect, and four times as many.

    It is about a trained model against its base, not about training seeds.
    """
    evaluation = base.trial.config.evaluation
    ks = result.ks if len(result.ks) <= 4 else (result.ks[0], result.ks[-1])
    bases = []
    for benchmark in base.benchmarks:
        counts = pooled(base.side(benchmark).counts)
        designs = tuple(
            Design(times * len(counts), evaluation.samples, evaluation.seeds) for times in (1, 4)
        )
        together, like = _correlation(result, base, benchmark)
        question = Question(
            designs, ks, False, HETEROGENEITY, together, evaluation.confidence, like
        )
        bases.append(Base.of(base.label, benchmark, counts, question))
    return power_document(bases, Provenance())


def _correlation(
    result: PartResult, base: MethodResult, benchmark: str
) -> tuple[float, str | None]:
    """Return the mean correlation of the base's grades with the methods', and its source.

    Without paired grades it is the default.
    """
    counts = pooled(base.side(benchmark).counts)
    correlations = [
        grade_correlation(counts, pooled(run))
        for method in result.there
        if method is not base and benchmark in method.benchmarks
        for run in method.side(benchmark).runs
    ]
    known = [one for one in correlations if not np.isnan(one)]
    if not known:
        return CORRELATION, None
    return max(float(np.mean(known)), 0.0), "the methods at hand"
