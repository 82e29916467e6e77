"""The curves of a suite: pass@k at every k, training seeds pooled."""

from __future__ import annotations

from sage_cli.metrics import curve, curve_ks
from sage_cli.reports.document import Document
from sage_cli.reports.passk import Line, passk_document
from sage_cli.reports.provenance import Provenance
from sage_cli.suite.results import PartResult


def curves(result: PartResult) -> Document:
    """Return the report of curves: a panel per benchmark, a line per method."""
    lines = []
    for method in result.there:
        evaluation = method.arms[0].config.evaluation
        ks = curve_ks(evaluation.samples, result.ks)
        for benchmark in method.benchmarks:
            counts = method.side(benchmark).counts
            options = {"confidence": evaluation.confidence, "resamples": evaluation.bootstrap}
            pooled = curve(counts, ks, **options)  # type: ignore[arg-type]
            lines.append(Line(method.label, benchmark, pooled))
    return passk_document(lines, Provenance(), result.ks)
