"""Policies x benchmarks x seeds, measured; what `passk` and `eval` have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import benchmark_problems
from sage_cli.evaluation.kept import keep_evaluations
from sage_cli.evaluation.measure import measure
from sage_cli.evaluation.measurement import Measured
from sage_cli.policies.policy import Policy, base_policy, named_policies
from sage_cli.problems.load import benchmark_names
from sage_cli.progress import Progress
from sage_cli.store.identity import identity_of
from sage_cli.store.run import Runs

Measurements = Mapping[tuple[str, str], tuple[Measured, ...]]
"""(benchmark, policy's label) -> one measurement per evaluation seed."""


def measure_all(config: SageConfig, names: Sequence[str], progress: Progress) -> Measurements:
    """Measure the named policies on every benchmark of the configuration with every seed.

    What is found of a run's final model is kept in its folder too.
    """
    evaluation = config.evaluation
    # before a base is trained, so that a broken benchmark is named at once
    benchmarks = {
        name: benchmark_problems(config, name) for name in benchmark_names(evaluation.benchmark)
    }
    policies = chosen_policies(config, names, progress)
    measured = {
        (benchmark, policy.label): tuple(
            measure(policy, config, benchmark, problems, evaluation.seed + offset, progress)
            for offset in range(evaluation.seeds)
        )
        for benchmark, problems in benchmarks.items()
        for policy in policies
    }
    keep_evaluations(config, policies, measured)
    return measured


def chosen_policies(config: SageConfig, names: Sequence[str], progress: Progress) -> list[Policy]:
    """The policies of `names`; without names the latest run's, or the base, trained first."""
    runs = Runs(config.run.root)
    if names:
        named = [policy for name in names for policy in named_policies(name, runs)]
        policies = list({policy.path: policy for policy in named}.values())
        labels = Counter(policy.label for policy in policies)
        alike = [policy.path for policy in policies if labels[policy.label] > 1]
        if alike:
            raise ConfigurationError(
                f"these would stand under the same name: {', '.join(alike)}",
                "measure them one by one, or rename their folders",
            )
        return policies
    latest = runs.latest()
    if latest is None:
        progress.say("no run yet: the preset's base is measured")
        return [base_policy(config, progress)]
    progress.say(f"measuring the latest run, [bold]{latest.id}[/]")
    return [Policy(str(latest.model), latest)]


def report_folder(kind: str, config: SageConfig, measured: Measurements) -> Path:
    """Where a report goes: told by its sample sets and by how they are evaluated and graded."""
    sets = [one.sample_set for seeds in measured.values() for one in seeds]
    settings = [config.evaluation.model_dump(), config.grading.model_dump()]
    identity = identity_of(kind, {"sets": sets, "settings": settings})
    benchmarks = "-".join(Path(name).stem for name in benchmark_names(config.evaluation.benchmark))
    return config.run.root / "reports" / f"{kind}-{benchmarks}-{identity[:8]}"
