"""What the design could have seen of a gain over the base."""

from __future__ import annotations

import numpy as np

from sage_cli.metrics import pooled
from sage_cli.metrics.power import CORRELATION, HETEROGENEITY, Design
from sage_cli.metrics.verdicts import verdict_correlation
from sage_cli.reports.document import Document
from sage_cli.reports.power import Base, Question, power_document
from sage_cli.reports.provenance import Provenance
from sage_cli.suite.results import MethodResult, PartResult


def power(result: PartResult, base: MethodResult) -> Document:
    """The smallest gain at each k that these problems and samples detect, and four times as many.

    Training seeds come on top: this is about one trained model against its base.
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
    """The mean correlation of the base's verdicts with those of the methods, and what it is from.

    The default where no verdicts are paired.
    """
    counts = pooled(base.side(benchmark).counts)
    found = [
        verdict_correlation(counts, pooled(run))
        for method in result.there
        if method is not base and benchmark in method.benchmarks
        for run in method.side(benchmark).runs
    ]
    known = [one for one in found if not np.isnan(one)]
    if not known:
        return CORRELATION, None
    return max(float(np.mean(known)), 0.0), "the methods at hand"
