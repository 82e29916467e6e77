"""`--measure`: what a training ends in is measured by the command that trained it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sage_cli.config.consent import consents
from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.config.records import TrackingSection
from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks
from sage_cli.evaluation.kept import keep_evaluations
from sage_cli.evaluation.measure import measure
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.metrics import parse_ks
from sage_cli.models.policies.policy import Policy
from sage_cli.progress import Progress
from sage_cli.store.mirrors.follower import Follower
from sage_cli.store.runs.run import Run


@dataclass(frozen=True)
class FinalMeasurement:
    """The measurement that a configuration asks for, ready for a run that may not exist yet."""

    benchmarks: Sequence[Benchmark]
    recipe: EvaluationRecipe
    root: Path
    tracking: TrackingSection
    consent: bool = False

    @classmethod
    def of(cls, config: SageConfig) -> FinalMeasurement:
        """What is wrong with benchmarks or ks is raised here, before anything is trained."""
        recipe = EvaluationRecipe.of(config)
        parse_ks(recipe.evaluation.k, recipe.evaluation.samples)
        benchmarks = load_benchmarks(recipe.evaluation, recipe.data)
        consent = consents(config.model)
        return cls(benchmarks, recipe, config.run.root, config.tracking, consent)

    def take(self, run: Run, progress: Progress, mirrors: Sequence[Follower] = ()) -> None:
        """Measure the final model of `run` as far as that isn't stored, and keep the figures.

        `mirrors` of the run that are open already show them too.
        """
        policy = Policy.of_run(run, consent=self.consent)
        samples = PolicySamples.of_evaluation(policy, self.recipe, self.root)
        measured = measure([samples], self.benchmarks, self.recipe, progress)
        keep_evaluations([policy], self.benchmarks, measured, self.recipe, self.tracking, mirrors)
