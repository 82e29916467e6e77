"""Which trainings, policies and problems are asked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sage_cli.analysis.gather import Subject
from sage_cli.config.recipe import EvaluationSpec
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.policies.names import (
    NO_LABELS,
    Labels,
    Model,
    chosen_policies,
    named_policy,
    named_run,
    refuse_equal_labels,
)
from sage_cli.policies.policy import Policy
from sage_cli.store.run import Run, Runs


def chosen_runs(names: Sequence[str], runs: Runs, labels: Labels = NO_LABELS) -> dict[str, Run]:
    """Each run that is named, or the latest one, by what it is called; it needn't be finished.

    Raises ConfigurationError for a model that came from no run, and two that are called the same.
    """
    if not names:
        policies = chosen_policies((), runs)
        return {policy.label: policy.run for policy in policies if policy.run is not None}
    found = [named_run(name, runs) for name in names]
    if foreign := [name for name, run in zip(names, found, strict=True) if run is None]:
        raise ConfigurationError(
            f"{', '.join(foreign)} came from no run, and left no records of a training",
            "name runs; `sage runs list` shows them",
        )
    called: dict[str, Run] = {}
    for name, run in zip(names, found, strict=True):
        if run is not None and run.id not in {one.id for one in called.values()}:
            label = labels.get(name, run.id)
            if label in called:
                raise ConfigurationError(
                    f"two runs would be called '{label}'", "give each a label of its own"
                )
            called[label] = run
    return called


def samples_of(policies: Sequence[Policy], recipe: EvaluationSpec, runs: Runs) -> list[Subject]:
    """The policies with the samples that the recipe means."""
    return [Subject(one, PolicySamples.of_evaluation(one, recipe, runs.root)) for one in policies]


def with_base(
    policies: Sequence[Policy],
    base: str | None,
    runs: Runs,
    model: Model,
    labels: Labels = NO_LABELS,
) -> list[Policy]:
    """The policies with the base in front: `base`, else what the first run grew from, or the first.

    Raises ConfigurationError where nothing is left to compare with it.
    """
    parents = [one.run.manifest.get("parent") for one in policies if one.run is not None]
    name = base or next(filter(None, parents), None)
    chosen = policies[0]
    if name is not None:
        chosen = replace(named_policy(str(name), runs, model), called=labels.get(str(name)))
    chosen = next((policy for policy in policies if policy.path == chosen.path), chosen)
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
