"""`sage eval`: the paper's table, pass@k with mean and standard deviation over evaluation seeds."""

from __future__ import annotations

from sage_cli.commands.measure.passk import Measuring
from sage_cli.evaluation.evaluate import report_folder
from sage_cli.evaluation.stored import stored_counts
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.evaluation import evaluation_document
from sage_cli.reports.tables.published import published_scores


def evaluate(
    measuring: Measuring,
    progress: Progress,
    *,
    paper: str | None = None,
    k_samples: bool = False,
    train: bool = False,
) -> Report:
    """Measure every named policy on every benchmark; `paper` lays one of its tables beside.

    With `paper` or `k_samples` the same samples are also evaluated as the paper's were, pass@k from
    the first k of each problem. With `train` the initial policy is trained where there is no run.
    """
    ks, root = measuring.evaluation.ks, measuring.evaluation.root
    if paper:
        published_scores(paper)  # so that a table that isn't there is named before measuring
    found = measuring.carry_out(progress, train=train)
    as_published = {
        (benchmark.name, policy.label): stored_counts(policy, benchmark, found.spec, root, ks)
        for benchmark in (found.benchmarks if paper or k_samples else ())
        for policy in found.policies
    }
    document = evaluation_document(found.measured, ks, found.provenance, paper, as_published)
    with progress.doing("writing the report"):
        return document.write(report_folder("eval", found, root))
