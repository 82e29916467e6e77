"""The selection of runs, policies, problems and options of an analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from sage_cli.analysis.analysis import Analysis, Option, Options
from sage_cli.analysis.load import Subject
from sage_cli.analysis.texts import read_detectors
from sage_cli.analysis.token_signals import refuse_unknown_signals
from sage_cli.config.load import changed
from sage_cli.config.schema import SageConfig
from sage_cli.config.specs import EvaluationSpec
from sage_cli.errors import ConfigurationError, DataError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.sample_sets import PolicySamples
from sage_cli.guides import BranchGuide, Guide, TokenGuide
from sage_cli.methods.method import Method
from sage_cli.methods.online import OnlineMethod
from sage_cli.models.policies.names import (
    NO_LABELS,
    Labels,
    Model,
    chosen_policies,
    named_policy,
    named_run,
    refuse_equal_labels,
)
from sage_cli.models.policies.policy import Policy
from sage_cli.settings.extensible import built_in
from sage_cli.settings.ks import parse_ks
from sage_cli.store.runs.run import Run, Runs


def chosen_runs(names: Sequence[str], runs: Runs, labels: Labels = NO_LABELS) -> dict[str, Run]:
    """Return the named runs, finished or not, or the latest one, by their labels.

    Raises ConfigurationError for a model without a run, and for equal labels.
    """
    if not names:
        policies = chosen_policies((), runs)
        return {policy.label: policy.run for policy in policies if policy.run is not None}
    named = {name: named_run(name, runs) for name in names}
    if foreign := [name for name, run in named.items() if run is None]:
        raise ConfigurationError(
            f"{', '.join(foreign)} came from no run and has no training records",
            "name runs; `sage runs list` shows them",
        )
    labelled: dict[str, Run] = {}
    for name, run in named.items():
        if run is not None and run.id not in {one.id for one in labelled.values()}:
            label = labels.get(name, run.id)
            if label in labelled:
                raise ConfigurationError(
                    f"two runs would be called '{label}'", "give each a label of its own"
                )
            labelled[label] = run
    return labelled


def samples_of(policies: Sequence[Policy], recipe: EvaluationSpec, runs: Runs) -> list[Subject]:
    """Return the policies with their samples under the recipe."""
    return [Subject(one, PolicySamples.of_evaluation(one, recipe, runs.root)) for one in policies]


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
    parents = [one.run.manifest.get("parent") for one in policies if one.run is not None]
    name = base or next(filter(None, parents), None)
    first = policies[0]
    if name is not None:
        first = replace(named_policy(str(name), runs, model), called=labels.get(str(name)))
    first = next((policy for policy in policies if policy.path == first.path), first)
    others = [policy for policy in policies if policy.path != first.path]
    if not others:
        raise ConfigurationError(
            f"{first.label} would be compared with itself",
            "name a run trained from it, or another base with --base",
        )
    refuse_equal_labels([first, *others])
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


@dataclass(frozen=True)
class Request:
    """The options of `sage analyze` beside its settings; None if an option was not typed.

    `problems` are prefixes of ids, `sampling` the words of options with which `sage passk` samples
    what this command needs. `guides` are names, as branch,token; `settings` has the values of those
    guides and `temperature` that of rollouts, which `with_guides` takes from a configuration.
    """

    base: str | None = None
    problems: tuple[str, ...] = ()
    delta: str | None = None
    patterns: Path | None = None
    sampling: tuple[str, ...] = ()
    guides: str | None = None
    algo: str | None = None
    methods: tuple[OnlineMethod, ...] = ()
    settings: tuple[Guide, ...] = ()
    temperature: float = 1.0
    temperatures: str | None = None
    k: str | None = None


def options_of(analysis: Analysis, spec: EvaluationSpec, request: Request) -> Options:
    """Return the analysis's options.

    Raises ConfigurationError for options that it does not use, and for deltas that are no shares.
    """
    for option in get_args(Option):
        if getattr(request, option) is not None and option not in analysis.options:
            typed = "temperature" if option == "temperatures" else option
            raise ConfigurationError(
                f"`sage analyze {analysis.name}` does not use --{typed}", "leave it out"
            )
    options = Options(spec.evaluation.confidence, spec.evaluation.bootstrap)
    if request.delta is not None:
        options = replace(options, deltas=_deltas(request.delta))
    if "patterns" in analysis.options:
        options = replace(options, detectors=read_detectors(request.patterns))
    if "guides" in analysis.options:
        guides = request.settings or (BranchGuide(), TokenGuide())
        refuse_unknown_signals(guides)
        options = replace(options, guides=guides, temperature=request.temperature)
    if "algo" in analysis.options:
        options = replace(options, methods=request.methods)
    if "k" in analysis.options:
        ks, own = tuple(parse_ks(spec.evaluation.k)), spec.sampling.temperature
        options = replace(options, ks=ks, temperature=own, temperatures=(own,))
    if "temperatures" in analysis.options:
        temperatures = {options.temperature, *_temperatures(request.temperatures)}
        options = replace(options, temperatures=tuple(sorted(temperatures)))
    return options


def with_guides(request: Request, analysis: Analysis, config: SageConfig) -> Request:
    """Return the request with the guides it names, by default the run's own, branch and token.

    Their values are those of the configuration, as if each were its guide. Unchanged for an
    analysis that reads no guides.
    """
    if "guides" not in analysis.options:
        return request
    own = [config.guide.name] if config.guide.name != "none" else []
    names = [*own, "branch", "token"] if request.guides is None else request.guides.split(",")
    settings = tuple(
        changed(config, {"guide.name": name}).guide.for_training(config.rl.steps)
        for name in dict.fromkeys(name.strip() for name in names)
    )
    return replace(request, settings=settings, temperature=config.rollout.temperature)


def with_methods(request: Request, analysis: Analysis, config: SageConfig) -> Request:
    """Return the request with the methods it names, by default grpo and all of advantages alone.

    Their values are those of the configuration, as if each were its method. Raises
    ConfigurationError for a name of no method, or of one that has no advantages.
    """
    if "algo" not in analysis.options:
        return request
    known = {name: of for name, of in built_in(Method).items() if issubclass(of, OnlineMethod)}
    if request.algo is None:
        names = ["grpo", *(name for name, of in known.items() if ".advantages" in of.__module__)]
    else:
        names = [name.strip() for name in request.algo.split(",")]
    methods = []
    for name in dict.fromkeys(names):
        found = changed(config, {"rl.algo": name}).rl
        if not isinstance(found, OnlineMethod):
            raise ConfigurationError(
                f"'{name}' has no advantages to weigh completions by", f"try {', '.join(known)}"
            )
        methods.append(found)
    return replace(request, methods=tuple(methods))


def _temperatures(text: str | None) -> list[float]:
    try:
        found = [float(word) for word in (text or "").split(",") if text]
    except ValueError:
        found = [-1.0]
    if any(not 0 < temperature < 100 for temperature in found):
        raise ConfigurationError(
            f"--temperature is '{text}', and takes numbers above 0",
            "type --temperature .7,.85,1,1.2",
        )
    return found


def _deltas(text: str) -> tuple[float, ...]:
    try:
        deltas = tuple(sorted({float(delta) for delta in text.split(",")}))
    except ValueError:
        deltas = ()
    if not deltas or not all(0 <= delta < 1 for delta in deltas):
        raise ConfigurationError(
            f"--delta is '{text}', and takes shares from 0 to below 1", "type --delta 0,0.01,0.1"
        )
    return deltas
