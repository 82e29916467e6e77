"""The models that a command names, measured: curves, tables, temperatures, second grades."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation import imported
from sage_cli.evaluation.benchmarks import Benchmark, grader_of
from sage_cli.evaluation.evaluate import (
    Evaluated,
    Evaluation,
    EvaluationStage,
    evaluation_folder,
    over_temperatures,
)
from sage_cli.evaluation.measure import Measurements
from sage_cli.evaluation.stored import PolicySamples, seed_counts, stored_counts
from sage_cli.grading import GRADING_VERSION
from sage_cli.grading.grades import Status
from sage_cli.grading.judges import label_of
from sage_cli.metrics import Counts, Curve, curve, curve_ks
from sage_cli.metrics.intervals import Resampling
from sage_cli.models.planned import Stage
from sage_cli.models.policy import Labels, Policy, chosen_policies, named_policy
from sage_cli.problems.problem import Generator, Problem
from sage_cli.problems.registry import generated
from sage_cli.progress import Progress
from sage_cli.reports.document import Report, SeedCounts, report_folder
from sage_cli.reports.passk import Line, over_temperatures_document, passk_document
from sage_cli.reports.published import published_scores
from sage_cli.reports.scores import evaluation_document
from sage_cli.sampling.sampler import SampleRequest, SamplerSetup, SamplingParameters, build_sampler
from sage_cli.settings.own_code import names_code
from sage_cli.settings.sections.model import PromptSection
from sage_cli.settings.sections.sampling import EvaluationSection
from sage_cli.solution_text import CLOSE, is_open
from sage_cli.store.annotations import GradeStore
from sage_cli.store.files import identity_of, key_of
from sage_cli.store.run import Runs


@dataclass(frozen=True)
class NamedModels:
    """The models called `names`, or without names the latest run, and how they are measured.

    `labels` are what tables and figures call a model, by the name that was typed.
    """

    evaluation: Evaluation
    names: Sequence[str]
    labels: Labels = field(default_factory=dict)

    @property
    def policies(self) -> list[Policy]:
        """The policies; without names the latest run's. Raises StoreError where there is none."""
        config = self.evaluation.config
        return chosen_policies(self.names, Runs(config.run.root), config.model, self.labels)

    @property
    def stages(self) -> list[Stage]:
        """The stages of the command: an evaluation, of nothing where there is no run yet."""
        is_any = self.names or Runs(self.evaluation.config.run.root).latest()
        return [EvaluationStage(self.evaluation, self.policies if is_any else [])]

    def measure(self, progress: Progress) -> Evaluated:
        """Measure the policies. What is wrong with benchmarks or ks is raised before that."""
        _ = self.evaluation.ks
        with progress.doing(f"reading {self.evaluation.config.evaluation.benchmark}"):
            _ = self.evaluation.benchmarks
        policies = self.policies
        if not self.names:
            progress.say(f"measuring the latest run, [bold]{policies[0].label}[/]")
        return self.evaluation.measure(policies, progress)


def measure_passk(models: NamedModels, progress: Progress, second: str | None = None) -> Report:
    """Measure every named run or model.

    Curves are computed at all ks; `evaluation.k` says which of them the table shows. `second` is
    a judge of texts: each model has a second curve, of the samples that both find right.
    """
    judges = text_judges(second, models.evaluation)
    evaluated = models.measure(progress)
    ks, evaluation = models.evaluation.ks, models.evaluation.config.evaluation
    curve_at = curve_ks(evaluation.samples, ks)
    measured = dict(evaluated.measured)
    for (benchmark, _), seeds in judged_again(evaluated, judges, progress).items():
        measured[benchmark, seeds[0].policy] = seeds
    with progress.doing("computing curves and writing the report"):
        lines = [
            Line(
                policy,
                benchmark,
                _curve([seed.counts for seed in seeds], curve_at, evaluation),
                seeds,
            )
            for (benchmark, policy), seeds in measured.items()
        ]
        document = passk_document(lines, evaluated.provenance, ks)
        by = "".join(f"-{key_of(judge.identity)}" for _, judge in judges)
        return document.write(evaluation_folder(f"passk{by[:9]}", evaluated))


def passk_of_files(
    files: Sequence[imported.CountedFile],
    labels: Labels,
    k: str | None,
    evaluation: EvaluationSection,
    root: Path,
) -> Report:
    """Curves from anybody's counts or samples, one file a curve; no model is needed.

    `k` says which ks the table shows, without it every k up to the smallest number of samples.
    """
    ks = imported.ks_of_files(files, k, "1..n")
    curve_at = curve_ks(min(int(file.counts.n_P.min()) for file in files), ks)
    typed = {Path(name): label for name, label in labels.items()}
    names = [
        typed.get(file.path, own)
        for file, own in zip(files, imported.file_labels(files), strict=True)
    ]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise ConfigurationError(
            f"{len(repeated)} files would be called '{repeated[0]}'",
            "name each file once, or label it as FILE=Label",
        )
    lines = [
        Line(name, file.task or "counted elsewhere", _curve([file.counts], curve_at, evaluation))
        for file, name in zip(files, names, strict=True)
    ]
    provenance = imported.provenance_of_files(files)
    identity = identity_of("passk", [*(provenance.files or {}).values()])
    folder = report_folder(root, f"passk-{files[0].path.stem}-{identity[:8]}")
    document = passk_document(lines, provenance, ks)
    return replace(document, notes=tuple(imported.file_notes(files))).write(folder)


def _curve(counts: Sequence[Counts], ks: Sequence[int], evaluation: EvaluationSection) -> Curve:
    """The curve of counts, one per evaluation seed, with the configured band."""
    return curve(counts, ks, Resampling(evaluation.confidence, evaluation.bootstrap))


def measure_table(
    models: NamedModels, progress: Progress, *, paper: str | None = None, k_samples: bool = False
) -> Report:
    """Measure every named policy on every benchmark; `paper` lays one of its tables beside.

    With `paper` or `k_samples` the same samples are also evaluated as the paper's were, pass@k from
    the first k of each problem.
    """
    evaluation = models.evaluation
    ks, config = evaluation.ks, evaluation.config
    if paper:
        published_scores(paper)  # so that a table that isn't there is named before measuring
    evaluated = models.measure(progress)
    as_published = {
        (benchmark.name, samples.policy.label): stored_counts(
            samples.policy, benchmark, config, config.run.root, ks
        )
        for benchmark in (evaluation.benchmarks if paper or k_samples else ())
        for samples in evaluated.samples
    }
    document = evaluation_document(
        evaluated.measured, ks, evaluated.provenance, paper, as_published
    )
    with progress.doing("writing the report"):
        return document.write(evaluation_folder("eval", evaluated))


def parse_temperatures(text: str) -> tuple[float, ...]:
    """Return the temperatures of `0.8,1,1.2`. Raises ConfigurationError for anything else."""
    try:
        temperatures = tuple(sorted({float(part) for part in text.split(",")}))
    except ValueError:
        temperatures = ()
    if not temperatures or not all(0 < temperature < 100 for temperature in temperatures):
        raise ConfigurationError(
            f"--temperature {text}: temperatures are numbers above 0",
            "write them with commas, as --temperature 0.8,1,1.2",
        )
    return temperatures


def measure_over_temperatures(
    models: NamedModels, temperatures: Sequence[float], progress: Progress
) -> Report:
    """Measure the named models at each temperature, and compare them at equal pass@1."""
    evaluation, policies = models.evaluation, models.policies
    with progress.doing(f"reading {evaluation.config.evaluation.benchmark}"):
        _ = evaluation.benchmarks
    config = evaluation.config
    runs = Runs(config.run.root)
    parents = {policy.run.known.get("parent") for policy in policies if policy.run} - {None}
    initial = named_policy(str(*parents), runs, config.model) if len(parents) == 1 else None
    initial = initial if initial and initial.is_here else None  # it may have been deleted
    curves = over_temperatures(evaluation, policies, temperatures, progress, initial)
    settings = config.evaluation
    with progress.doing("comparing, and writing the report"):
        resampling = Resampling(settings.confidence, settings.bootstrap)
        document = over_temperatures_document(curves, resampling)
        identity = identity_of(
            "temperatures",
            {
                "policies": [policy.fingerprint for policy in policies],
                "settings": settings.determinants(),
                "temperatures": curves.temperatures,
            },
        )
        stem = "-".join(dict.fromkeys(name for name, _ in curves.passed))
        folder = report_folder(config.run.root, f"temperatures-{stem}-{identity[:8]}")
        return document.write(folder)


Texts = Sequence[tuple[Problem, str]]
"""Completions with their problems."""
_SERVED = re.compile(r"(?P<model>.+)@(?P<server>https?://.+)")
_QUESTION = (
    "A problem, its answer and a solution follow. Is each step of the solution right, and does the "
    "solution lead to that answer? End with one line, `Verdict: right` or `Verdict: wrong`.\n\n"
    "Problem:\n{question}\n\nAnswer: {gold}\n\nSolution:\n{completion}"
)
_VERDICT = re.compile(
    r"(?<![a-z])verdict[\s*_`:]+(right|wrong)(?!-?[a-z]|/|[^\w\n]+(?:or|but)\b)", re.IGNORECASE
)
_GREEDY = SamplingParameters(temperature=0, top_p=1, top_k=0, min_p=0, max_tokens=4096, stop=None)


@dataclass(frozen=True)
class TextJudge:
    """A judge of whole texts; `identity` is all that decides its grades, and their key."""

    label: str
    identity: Mapping[str, Any]
    judge: Callable[[Texts], list[Status]]


def text_judge(name: str, benchmark: Benchmark, config: SageConfig) -> TextJudge:
    """Return the judge called `working`, FILE.py:FUNCTION or MODEL@http://HOST:PORT.

    Raises ConfigurationError for another name, and where no rule checks a working.
    """
    if served := _SERVED.fullmatch(name):
        return _served(served["model"], served["server"], config)
    if names_code(name):
        return _function(name, config)
    kind = generated(benchmark.name)
    checks = kind.generator.working_is_right if kind else Generator.working_is_right
    if name == "working" and checks("", "") is not None:
        return TextJudge(
            "a right working",
            {"working": kind and kind.generator.name, "version": GRADING_VERSION},
            lambda texts: ["right" if checks(p.question, text) else "wrong" for p, text in texts],
        )
    raise ConfigurationError(
        f"no judge of texts is called '{name}', where {benchmark.name} is answered",
        "name a function of question, completion and gold, as --grade mine.py:judge, or a server's "
        "model, as --grade MODEL@http://HOST:8000; `--grade working` is for arithmetic",
    )


def _function(name: str, config: SageConfig) -> TextJudge:
    asked = config.grading.model_copy(update={"extract": "text"})
    grader = grader_of(name, None, asked, config.prompt, sees_text=True)

    def judge(texts: Texts) -> list[Status]:
        pairs = ((json.dumps([problem.question, problem.gold]), text) for problem, text in texts)
        return [grade.status for grade in grader.grade_many(pairs)]

    return TextJudge(label_of(name), grader.identity.mapping(), judge)


def _served(model: str, server: str, config: SageConfig) -> TextJudge:
    served = {"backend": "server", "servers": (server,)}
    named = {"server_model": model, "server_form": "chat"}
    section = config.sampling.model_copy(update=served | named)
    setup = SamplerSetup(model, _GREEDY, section, prompt=PromptSection(system=None))

    def judge(texts: Texts) -> list[Status]:
        requests = []
        for number, (problem, text) in enumerate(texts):
            about = {"question": problem.question, "gold": problem.gold, "completion": text}
            name = f"{problem.id}/{number}"  # a refusal names it
            requests.append(SampleRequest(name, _QUESTION.format(**about), (0,)))
        with build_sampler(setup) as sampler:
            replies = {reply.problem_id: reply.text for reply in sampler.sample(requests)}
        return [verdict_of(replies[request.problem_id]) for request in requests]

    return TextJudge(model, {"server_model": model, "asked": _QUESTION}, judge)


def verdict_of(reply: str) -> Status:
    """Return what a reply says after the word verdict, `error` if none or several differ.

    A thought holds no verdict.
    """
    reply = "" if is_open(reply) else reply.rpartition(CLOSE)[2]
    verdicts = {words.lower() for words in _VERDICT.findall(reply)}
    return "right" if verdicts == {"right"} else "wrong" if verdicts == {"wrong"} else "error"


def text_judges(name: str | None, evaluation: Evaluation) -> list[tuple[Benchmark, TextJudge]]:
    """Return each benchmark with the judge of texts called `name`; without a name none."""
    if name is None:
        return []
    return [(each, text_judge(name, each, evaluation.config)) for each in evaluation.benchmarks]


def judged_again(
    evaluated: Evaluated, judges: Sequence[tuple[Benchmark, TextJudge]], progress: Progress
) -> Measurements:
    """Return the measurements with a sample right where its benchmark's judge agrees."""
    return {
        (benchmark.name, samples.policy.label): second_measurements(
            samples, benchmark, evaluated.measured, judge, progress
        )
        for (benchmark, judge), samples in product(judges, evaluated.samples)
    }


def second_measurements(
    samples: PolicySamples,
    benchmark: Benchmark,
    measured: Measurements,
    judge: TextJudge,
    progress: Progress,
) -> tuple[SeedCounts, ...]:
    """Return the measurements of a policy with a sample right where both grades are.

    Samples that are right by the first grade are judged and stored as far as they aren't.
    """
    label, by_seed = samples.policy.label, []
    problems = {problem.id: problem for problem in benchmark.problems}
    for first in measured[benchmark.name, label]:
        store = GradeStore(samples.at(first.seed), judge.identity)
        row_of = {id_: number for number, id_ in enumerate(first.counts.problem_ids)}
        assert first.counts.grades is not None
        right_PN = first.counts.grades.right_PN
        n = right_PN.shape[1]
        with progress.doing(f"{judge.label} judges {label} on {benchmark.name}"):
            for rows in store.missing(problems, n):
                right = [row for row in rows if right_PN[row_of[row.problem_id], row.index]]
                texts = [(problems[row.problem_id], row.text) for row in right]
                statuses = judge.judge(texts) if texts else []
                store.add(list(zip(right, statuses, [None] * len(right), strict=True)))
                store.flush()
        second = store.tally(list(row_of), n)
        both_PN = right_PN & second.right_PN
        counted = {"n_P": first.counts.n_P, "right_PN": both_PN, "right_P": both_PN.sum(axis=1)}
        tally = replace(second, **counted, lacking=0)
        name = f"{label}, right by {judge.label}"
        by_seed.append(seed_counts(name, benchmark, samples.at(first.seed), tally))
    return tuple(by_seed)
