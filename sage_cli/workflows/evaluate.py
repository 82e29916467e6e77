"""`sage eval`: the paper's table, pass@k with mean and standard deviation over evaluation seeds."""

from __future__ import annotations

from collections.abc import Sequence

from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import load_benchmarks
from sage_cli.evaluation.evaluate import evaluate as evaluate_policies
from sage_cli.evaluation.evaluate import report_folder
from sage_cli.evaluation.stored import stored_counts
from sage_cli.metrics import parse_ks
from sage_cli.progress import Progress
from sage_cli.reports.document import Report
from sage_cli.reports.evaluation import evaluation_document
from sage_cli.reports.tables.published import published_scores
from sage_cli.workflows.sft import policies_to_measure


def evaluate(
    config: SageConfig,
    names: Sequence[str],
    progress: Progress,
    *,
    paper: str | None = None,
    k_samples: bool = False,
    train: bool = False,
) -> Report:
    """Measure every named policy on every benchmark; `paper` lays one of its tables beside.

    With `paper` or `k_samples` the same samples are also evaluated as the paper's were, pass@k from
    the first k of each problem.
    """
    recipe, root = EvaluationRecipe.of(config), config.run.root
    ks = parse_ks(recipe.evaluation.k, recipe.evaluation.samples)
    if paper:
        published_scores(paper)  # so that a table that isn't there is named before measuring
    with progress.doing(f"reading {recipe.evaluation.benchmark}"):
        benchmarks = load_benchmarks(recipe.evaluation, recipe.data)
    policies = policies_to_measure(config, names, progress, train=train)
    found = evaluate_policies(policies, benchmarks, recipe, root, config.tracking, progress)
    as_published = {
        (benchmark.name, policy.label): stored_counts(policy, benchmark, recipe, root, ks)
        for benchmark in (benchmarks if paper or k_samples else ())
        for policy in policies
    }
    document = evaluation_document(found.measured, ks, found.provenance, paper, as_published)
    with progress.doing("writing the report"):
        return document.write(report_folder("eval", found, recipe, root))
