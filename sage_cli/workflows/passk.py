"""`sage passk`: pass@k curves of runs on benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.measurements import measure_all, report_folder
from sage_cli.evaluation.provenance import provenance_of
from sage_cli.metrics import parse_ks
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.passk import Line, passk_document
from sage_cli.workflows.curves import curve_of


def passk(config: SageConfig, names: Sequence[str], progress: Progress) -> Report:
    """Measure every named run or model (the latest run, or the base, when none is named)."""
    ks = parse_ks(config.evaluation.k, config.evaluation.samples)
    measured = measure_all(config, names, progress)
    lines = [
        Line(policy, benchmark, curve_of(config, [one.counts for one in seeds], ks), seeds)
        for (benchmark, policy), seeds in measured.items()
    ]
    provenance = provenance_of(config, [one for seeds in measured.values() for one in seeds])
    return passk_document(lines, provenance).write(report_folder("passk", config, measured))
