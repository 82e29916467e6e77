"""What is stored of the policies that are asked about: nothing is drawn or graded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sage_cli.analysis.answers import Answers
from sage_cli.analysis.material import TrainedRun
from sage_cli.config.recipe import EvaluationSpec
from sage_cli.errors import StoreError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import missing, stored_counts, stored_verdicts
from sage_cli.metrics import Counts, pooled
from sage_cli.policies.names import named_policies
from sage_cli.policies.policy import Policy
from sage_cli.store.run import Run, Runs


@dataclass(frozen=True)
class Subject:
    """A policy with the samples that the evaluation means."""

    policy: Policy
    samples: PolicySamples

    def answers(self, benchmark: Benchmark, recipe: EvaluationSpec) -> Answers:
        """Its answers on a benchmark."""
        stores = tuple(store for _, store in stored_verdicts(self.samples, benchmark, recipe))
        return Answers(self.policy.label, benchmark, recipe.evaluation.samples, stores)


def require_samples(
    subjects: Sequence[Subject],
    benchmarks: Sequence[Benchmark],
    recipe: EvaluationSpec,
    root: Path,
    drawing: str,
) -> None:
    """Raise StoreError where graded samples lack; `drawing` is the command that draws them."""
    lacking = [
        one
        for one in missing([subject.policy for subject in subjects], benchmarks, recipe, root)
        if one.graded < one.wanted
    ]
    if lacking:
        raise StoreError(
            "\n".join(
                f"{one.policy} has {one.graded:,} of {one.wanted:,} graded samples on "
                f"{one.benchmark}"
                for one in lacking
            ),
            f"draw them with `{drawing}`, or ask for fewer with --n, or for other settings with "
            "--preset and --set",
        )


def trained(run: Run, benchmarks: Sequence[Benchmark], recipe: EvaluationSpec) -> TrainedRun:
    """A run's records, and the counts of those of its checkpoints that were measured in full.

    Raises StoreError for a run that wrote no records.
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
    return TrainedRun(run.id, records, measured)
