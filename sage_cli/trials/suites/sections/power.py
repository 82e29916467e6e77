"""The power of a suite: the smallest detectable gain over the base."""

from __future__ import annotations

import numpy as np

from sage_cli.metrics import pooled
from sage_cli.metrics.comparisons.support import grade_correlation
from sage_cli.metrics.design.power import CORRELATION, HETEROGENEITY, Design
from sage_cli.reports.document import Document
from sage_cli.reports.power import Base, Question, power_document
from sage_cli.reports.provenance import Provenance
from sage_cli.trials.suites.results import MethodResult, PartResult


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
