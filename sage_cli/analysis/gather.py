"""Which policies are asked about, and what is stored of them: nothing is drawn or graded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sage_cli.analysis.answers import Answers
from sage_cli.analysis.material import Trained
from sage_cli.config.recipe import EvaluationRecipe
from sage_cli.errors import ConfigurationError, DataError, StoreError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.missing import missing
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.evaluation.stored import stored_counts, stored_verdicts
from sage_cli.metrics import Counts, pooled
from sage_cli.policies.names import Model, named_policies, named_policy, refuse_equal_labels
from sage_cli.policies.policy import Policy
from sage_cli.store.run import Run, Runs


@dataclass(frozen=True)
class Subject:
    """A policy with the samples that the evaluation means."""

    policy: Policy
    samples: PolicySamples

    @property
    def word(self) -> str:
        """What a command calls it."""
        return self.policy.path if self.policy.run is None else self.policy.label

    def answers(self, benchmark: Benchmark, recipe: EvaluationRecipe) -> Answers:
        """Its answers on a benchmark."""
        stores = tuple(store for _, store in stored_verdicts(self.samples, benchmark, recipe))
        return Answers(self.policy.label, benchmark, recipe.evaluation.samples, stores)


def with_base(
    policies: Sequence[Policy], base: str | None, runs: Runs, model: Model
) -> list[Policy]:
    """The policies with the base in front: `base`, else what the first run grew from, or the first.

    Raises ConfigurationError where nothing is left to compare with it.
    """
    parents = [one.run.manifest.get("parent") for one in policies if one.run is not None]
    name = base or next(filter(None, parents), None)
    chosen = policies[0] if name is None else named_policy(str(name), runs, model)
    others = [policy for policy in policies if policy.path != chosen.path]
    if not others:
        raise ConfigurationError(
            f"{chosen.label} is compared with nothing but itself",
            "name a run that grew from it, or another base with --base",
        )
    refuse_equal_labels([chosen, *others])
    return [chosen, *others]


def only(benchmarks: Sequence[Benchmark], beginnings: Sequence[str]) -> list[Benchmark]:
    """Benchmarks cut to the problems whose ids begin with one of these, all where none is given.

    Raises DataError for one that no id, or more than one, begins with.
    """
    if not beginnings:
        return list(benchmarks)
    ids = {problem.id for one in benchmarks for problem in one.problems}
    chosen = set()
    for beginning in beginnings:
        fitting = [id_ for id_ in ids if id_.startswith(beginning)]
        if len(fitting) != 1:
            names = ", ".join(one.name for one in benchmarks)
            raise DataError(
                f"{len(fitting) or 'no'} problem ids of {names} begin with '{beginning}'",
                "the CSV of `sage analyze support` or `diversity` lists ids problem by problem",
            )
        chosen.add(fitting[0])
    cut = [
        replace(one, problems=tuple(p for p in one.problems if p.id in chosen))
        for one in benchmarks
    ]
    return [one for one in cut if one.problems]


def require_samples(
    subjects: Sequence[Subject],
    benchmarks: Sequence[Benchmark],
    recipe: EvaluationRecipe,
    root: Path,
    drawing: str,
) -> None:
    """Raise StoreError where graded samples lack; `drawing` is the command that draws them."""
    lacking = [
        one
        for one in missing([subject.policy for subject in subjects], benchmarks, recipe, root)
        if one.judged < one.wanted
    ]
    if lacking:
        raise StoreError(
            "\n".join(
                f"{one.policy} has {one.judged:,} of {one.wanted:,} graded samples on "
                f"{one.benchmark}"
                for one in lacking
            ),
            f"draw them with `{drawing}`, or ask for fewer with --n, or for other settings with "
            "--preset and --set",
        )


def trained(run: Run, benchmarks: Sequence[Benchmark], recipe: EvaluationRecipe) -> Trained:
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
    return Trained(records, measured)
