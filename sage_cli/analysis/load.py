"""Loading the inputs of analyses from what is stored: nothing is sampled or graded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sage_cli.analysis.analysis import TrainedRun
from sage_cli.analysis.answers import Answers
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import StoreError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import missing, stored_counts, stored_grades
from sage_cli.metrics import Counts, pooled
from sage_cli.models.policies.names import named_policies
from sage_cli.models.policies.policy import Policy
from sage_cli.store.runs.run import Run, Runs


@dataclass(frozen=True)
class Subject:
    """A policy with its samples under the evaluation's settings."""

    policy: Policy
    samples: PolicySamples

    def answers(self, benchmark: Benchmark, recipe: EvaluationSpec) -> Answers:
        """Return its answers on a benchmark."""
        stores = tuple(store for _, store in stored_grades(self.samples, benchmark, recipe))
        return Answers(self.policy.label, benchmark, recipe.evaluation.samples, stores)


def require_samples(
    subjects: Sequence[Subject],
    benchmarks: Sequence[Benchmark],
    recipe: EvaluationSpec,
    root: Path,
    command: str,
) -> None:
    """Raise StoreError if graded samples are missing; `command` would sample them."""
    policies = [subject.policy for subject in subjects]
    lines = [
        f"{one.policy} has {one.graded:,} of {one.wanted:,} graded samples on {one.benchmark}"
        for one in missing(policies, benchmarks, recipe, root)
        if one.graded < one.wanted
    ]
    if lines:
        raise StoreError(
            "\n".join(lines),
            f"sample them with `{command}`, or choose fewer with --n, or other settings with "
            "--preset and --set",
        )


def trained(run: Run, benchmarks: Sequence[Benchmark], recipe: EvaluationSpec) -> TrainedRun:
    """Return a run's records, and counts of its checkpoints that were measured in full.

    Raises StoreError for a run without records.
    """
    records = run.metrics.read()
    if not records:
        raise StoreError(
            f"{run.id} has no records: its metrics.jsonl is absent or empty",
            "name a run that has trained at least one step",
        )
    measured: dict[str, dict[int, Counts]] = {}
    n, root = recipe.evaluation.samples, run.folder.parent
    for policy in named_policies(f"{run.id}@all", Runs(root)):
        step = int(records[-1]["step"]) if policy.checkpoint is None else policy.checkpoint
        for benchmark in benchmarks:
            seeds = stored_counts(policy, benchmark, recipe, root, (n,))[n]
            if all((one.n_P == n).all() for one in seeds):
                measured.setdefault(benchmark.name, {})[step] = pooled(seeds)
    return TrainedRun(run.id, records, measured, run.ledger.read(), run.completions().read)
