"""`sage eval`: the paper's table, pass@k with mean and standard deviation over evaluation seeds."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.measurements import measure_all, report_folder
from sage_cli.evaluation.provenance import provenance_of
from sage_cli.metrics import parse_ks
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.evaluation import evaluation_document
from sage_cli.reports.published import published_scores


def evaluate(
    config: SageConfig, names: Sequence[str], progress: Progress, *, paper: str | None = None
) -> Report:
    """Measure every named policy on every benchmark; `paper` lays one of its tables beside."""
    ks = parse_ks(config.evaluation.k, config.evaluation.samples)
    if paper:
        published_scores(paper)  # so that a table that isn't there is named before measuring
    measured = measure_all(config, names, progress)
    provenance = provenance_of(config, [one for seeds in measured.values() for one in seeds])
    document = evaluation_document(measured, ks, provenance, paper)
    return document.write(report_folder("eval", config, measured))
