"""Stored samples and grades of one run, by the evaluation settings that it was trained with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sage_cli.config.consent import JUDGE, own_functions, without_consent
from sage_cli.config.load import load
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import Benchmark, load_benchmarks
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import StoredAnswer, stored_answers, stored_counts
from sage_cli.metrics import Counts
from sage_cli.models.policies.policy import Policy
from sage_cli.models.policies.prompting import stored_settings
from sage_cli.store.runs.run import Run


@dataclass(frozen=True)
class RunMeasurements:
    """A run's policy with an evaluation of it, and the folder of runs."""

    policy: Policy
    spec: EvaluationSpec
    root: Path

    @classmethod
    def of(
        cls,
        run: Run,
        benchmark: str | None,
        samples: int | None,
        seeds: int | None,
        judge: str | None = None,
    ) -> RunMeasurements:
        """Return those that the run's own settings mean, but for what is given.

        Raises ConfigurationError where they name a judge of one's own and `judge` is not given.
        """
        made_with = stored_settings(run)
        own = own_functions(made_with).get(JUDGE)
        if own is not None and judge is None:
            raise ConfigurationError(
                f"{run.id} is graded by {own}: that is Python code, and a stored configuration "
                "can't have it run",
                f"read that code, and add judge='{own}' to the call if it may be run here",
            )
        named = {"benchmark": benchmark, "samples": samples, "seeds": seeds}
        flags = {"evaluation": named, "grading": {"judge": judge}}
        config = load(flags=flags, stored=without_consent(made_with)).config
        return cls(Policy.of_run(run), EvaluationSpec.of(config), run.folder.parent)

    @property
    def benchmarks(self) -> list[Benchmark]:
        """Return the benchmarks, loaded."""
        spec = self.spec
        return load_benchmarks(spec.evaluation, spec.data, spec.grading.judge)

    def counts(self) -> Iterator[tuple[str, int, Counts]]:
        """Yield benchmark, evaluation seed, and the counts of samples with a grade."""
        n, first = self.spec.evaluation.samples, self.spec.evaluation.seed
        for one in self.benchmarks:
            found = stored_counts(self.policy, one, self.spec, self.root, [n])[n]
            for seed, counts in enumerate(found, first):
                yield one.name, seed, counts

    def answers(self) -> Iterator[tuple[str, StoredAnswer]]:
        """Yield benchmark and each stored sample that has a grade."""
        samples = PolicySamples.of_evaluation(self.policy, self.spec, self.root)
        n = self.spec.evaluation.samples
        for one in self.benchmarks:
            for answer in stored_answers(samples, one, self.spec, list(one.golds), n):
                yield one.name, answer
