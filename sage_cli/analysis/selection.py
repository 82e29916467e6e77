"""The analyses by name, and the selection of the runs, policies, problems and options of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from sage_cli.analysis.analysis import Analysis, Option, Options, TrainedRun
from sage_cli.analysis.diversity import ANSWER_MODES, DIVERSITY
from sage_cli.analysis.dynamics import DYNAMICS
from sage_cli.analysis.entropy import ENTROPY
from sage_cli.analysis.graded_samples import read_detectors
from sage_cli.analysis.lengths import LENGTHS
from sage_cli.analysis.patterns import PATTERNS
from sage_cli.analysis.perplexity import PERPLEXITY
from sage_cli.analysis.reliability import MAJORITY, RELIABILITY
from sage_cli.analysis.sharpening import SHARPENING
from sage_cli.analysis.support import SUPPORT
from sage_cli.analysis.training import TRAINING
from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError, DataError, StoreError, did_you_mean
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.stored_grades import stored_counts
from sage_cli.metrics import Counts, pooled
from sage_cli.models.policy import (
    NO_LABELS,
    Labels,
    Model,
    Policy,
    check_distinct_labels,
    chosen_policies,
    named_policies,
    named_policy,
    named_run,
)
from sage_cli.settings.analysis import AnalysisOptions
from sage_cli.settings.sampling import SamplingSection
from sage_cli.store.run import Run, Runs

_ANALYSES = (PATTERNS, PERPLEXITY, SUPPORT, DIVERSITY, ENTROPY, MAJORITY, LENGTHS)
_LATER = (RELIABILITY, SHARPENING, DYNAMICS, TRAINING, ANSWER_MODES)
ANALYSES = {analysis.name: analysis for analysis in (*_ANALYSES, *_LATER)}
"""A new analysis is a file beside this one and its name here."""


def find_analysis(name: str) -> Analysis:
    """Return the analysis of that name. Raises ConfigurationError with the nearest name."""
    if name in ANALYSES:
        return ANALYSES[name]
    raise ConfigurationError(
        f"there is no analysis '{name}'; there are {', '.join(ANALYSES)}",
        did_you_mean(name, ANALYSES) or "`sage analyze` describes each analysis",
    )


def chosen_runs(names: Sequence[str], runs: Runs, labels: Labels = NO_LABELS) -> dict[str, Run]:
    """Return the named runs, finished or not, or the latest one, by their labels.

    Raises ConfigurationError for a model without a run, and for equal labels.
    """
    if not names:
        policies = chosen_policies((), runs)
        return {policy.label: policy.run for policy in policies if policy.run is not None}
    by_name = {name: named_run(name, runs) for name in names}
    if foreign := [name for name, run in by_name.items() if run is None]:
        raise ConfigurationError(
            f"only runs have training records, and no run is named {' or '.join(foreign)}",
            "give runs instead (`sage runs list` shows them)",
        )
    labelled: dict[str, Run] = {}
    for name, run in by_name.items():
        if run is not None and run.id not in {chosen.id for chosen in labelled.values()}:
            label = labels.get(name, run.id)
            if label in labelled:
                raise ConfigurationError(
                    f"two runs would be called '{label}'",
                    "give each its own label, for example RUN=Label",
                )
            labelled[label] = run
    return labelled


def trained(run: Run, benchmarks: Sequence[Benchmark], config: SageConfig) -> TrainedRun:
    """Return a run's records, and counts of its checkpoints that were measured in full.

    Raises StoreError for a run without records.
    """
    records = run.metrics.read()
    if not records:
        raise StoreError(
            f"{run.id} has no training records: its metrics.jsonl is missing or empty",
            "choose a run that has trained for at least one step",
        )
    measured: dict[str, dict[int, Counts]] = {}
    n, root = config.evaluation.samples, run.folder.parent
    for policy in named_policies(f"{run.id}@all", Runs(root)):
        step = int(records[-1]["step"]) if policy.checkpoint is None else policy.checkpoint
        for benchmark in benchmarks:
            seeds = stored_counts(policy, benchmark, config, root, (n,))[n]
            if all((counts.n_P == n).all() for counts in seeds):
                measured.setdefault(benchmark.name, {})[step] = pooled(seeds)
    return TrainedRun(run.id, records, measured, run.ledger.read(), run.completions().read)


def with_base(
    policies: Sequence[Policy],
    base: str | None,
    runs: Runs,
    model: Model,
    labels: Labels = NO_LABELS,
) -> list[Policy]:
    """Return the policies with the base first: `base`, the first run's parent, or the first.

    Raises ConfigurationError if no other policy is left.
    """
    parents = [
        policy.run.read_manifest().get("parent") for policy in policies if policy.run is not None
    ]
    name = base or next(filter(None, parents), None)
    first = policies[0]
    if name is not None:
        first = replace(named_policy(str(name), runs, model), called=labels.get(str(name)))
    first = next((policy for policy in policies if policy.path == first.path), first)
    others = [policy for policy in policies if policy.path != first.path]
    if not others:
        raise ConfigurationError(
            f"{first.label} would be compared with itself",
            "give a run that was trained from it, or another base with --base",
        )
    check_distinct_labels([first, *others])
    return [first, *others]


def only(benchmarks: Sequence[Benchmark], prefixes: Sequence[str]) -> list[Benchmark]:
    """Return benchmarks with the problems whose ids have one of these prefixes, by default all.

    Raises DataError for a prefix of no id, or of several.
    """
    if not prefixes:
        return list(benchmarks)
    ids = {problem.id for benchmark in benchmarks for problem in benchmark.problems}
    selected = set()
    for prefix in prefixes:
        matching = [id_ for id_ in ids if id_.startswith(prefix)]
        if len(matching) != 1:
            names = ", ".join(benchmark.name for benchmark in benchmarks)
            raise DataError(
                f"{len(matching) or 'no'} problem ids of {names} begin with '{prefix}'",
                "the CSV of `sage analyze support` or `diversity` lists ids problem by problem",
            )
        selected.add(matching[0])
    reduced = [
        replace(benchmark, problems=tuple(p for p in benchmark.problems if p.id in selected))
        for benchmark in benchmarks
    ]
    return [benchmark for benchmark in reduced if benchmark.problems]


def options_of(analysis: Analysis, config: SageConfig, request: AnalysisOptions) -> Options:
    """Return the analysis's options, under a configuration.

    Raises ConfigurationError for options that it does not use, for what an option can't be, and
    for samples that it can't take.
    """
    for option in get_args(Option):
        if getattr(request, option) is not None and option not in analysis.options:
            raise ConfigurationError(
                f"`sage analyze {analysis.name}` does not use --{option}", "leave it out"
            )
    if analysis.readers == "base":
        _require_plain(config.sampling, analysis)
    evaluation, survival = config.evaluation, bool(request.survival)
    options = Options(evaluation.confidence, evaluation.bootstrap, survival=survival)
    if request.delta is not None:
        options = replace(options, deltas=_deltas(request.delta))
    if request.alpha is not None:
        options = replace(options, alphas=tuple(sorted({*request.alpha} - {1})) or options.alphas)
    if "patterns" in analysis.options:
        options = replace(options, detectors=read_detectors(request.patterns))
    return options


def _deltas(text: str) -> tuple[float, ...]:
    try:
        deltas = tuple(sorted({float(delta) for delta in text.split(",")}))
    except ValueError:
        deltas = ()
    if not deltas or not all(0 <= delta < 1 for delta in deltas):
        raise ConfigurationError(
            f"--delta is '{text}', but its values must be at least 0 and below 1",
            "for example --delta 0,0.01,0.1",
        )
    return deltas


def _require_plain(sampling: SamplingSection, analysis: Analysis) -> None:
    if sampling.temperature == 1 and not sampling.truncates:
        return
    taken = {name: getattr(sampling, name) for name in ("temperature", "top_p", "top_k", "min_p")}
    raise ConfigurationError(
        f"`sage analyze {analysis.name}` weighs samples of the policy itself, and these are taken "
        f"with {', '.join(f'{name} {value:g}' for name, value in taken.items())}",
        "add --set sampling.temperature=1 --set sampling.top_p=1 --set sampling.top_k=0 "
        "--set sampling.min_p=0 here and to the `sage passk` that samples",
    )
