"""pass@k at every k, each method's training seeds together."""

from __future__ import annotations

from sage_cli.metrics import curve, curve_ks
from sage_cli.reports.document import Document
from sage_cli.reports.passk import Line, passk_document
from sage_cli.reports.provenance import Provenance
from sage_cli.suite.results import PartResult


def curves(result: PartResult) -> Document:
    """A panel per benchmark, a line per method."""
    lines = []
    for method in result.there:
        evaluation = method.trial.config.evaluation
        ks = curve_ks(evaluation.samples, result.ks)
        for benchmark in method.benchmarks:
            counts = method.side(benchmark).counts
            found = curve(
                counts, ks, confidence=evaluation.confidence, resamples=evaluation.bootstrap
            )
            lines.append(Line(method.label, benchmark, found))
    return passk_document(lines, Provenance(), result.ks)
