"""Measure, keep what was found with the runs, and say where the numbers came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.config.records import TrackingSection
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.kept import keep_evaluations
from sage_cli.evaluation.measure import Measurements, measure
from sage_cli.evaluation.provenance import provenance_of
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.models.policies.policy import Policy
from sage_cli.progress import Progress
from sage_cli.reports.provenance import Provenance
from sage_cli.store.identity import identity_of


@dataclass(frozen=True)
class Evaluated:
    """Measurements by (benchmark, policy's label), and their provenance."""

    measured: Measurements
    provenance: Provenance


def evaluate(
    policies: Sequence[Policy],
    benchmarks: Sequence[Benchmark],
    recipe: EvaluationRecipe,
    root: Path,
    tracking: TrackingSection,
    progress: Progress,
) -> Evaluated:
    """Measure every policy on every benchmark, as `measure` does; `root` is the folder of runs."""
    samples = [PolicySamples.of_evaluation(policy, recipe, root) for policy in policies]
    for policy in policies:
        with progress.doing(f"hashing the weights of {policy.label}"):
            policy.fingerprint  # noqa: B018  kept once it is known
    measured = measure(samples, benchmarks, recipe, progress)
    keep_evaluations(policies, benchmarks, measured, recipe, tracking)
    return Evaluated(measured, provenance_of(samples, benchmarks, recipe))


def report_folder(kind: str, found: Evaluated, recipe: EvaluationRecipe, root: Path) -> Path:
    """Where a report goes: told by its sample sets and by how they are evaluated and graded."""
    sets = [one.sample_set for seeds in found.measured.values() for one in seeds]
    settings = [recipe.evaluation.determinants(), recipe.grading.determinants()]
    identity = identity_of(kind, {"sets": sets, "settings": settings})
    benchmarks = dict.fromkeys(Path(benchmark).stem for benchmark, _ in found.measured)
    return root / "reports" / f"{kind}-{'-'.join(benchmarks)}-{identity[:8]}"
