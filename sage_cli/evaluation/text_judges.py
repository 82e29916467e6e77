"""Second grades of correct samples, by judges that see question, completion and gold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import Benchmark, grader_of
from sage_cli.evaluation.policy_samples import PolicySamples
from sage_cli.evaluation.sample_and_grade import Measurements
from sage_cli.evaluation.stored_grades import seed_counts
from sage_cli.grading.grades import GRADING_VERSION, Status
from sage_cli.grading.judges import label_of
from sage_cli.metrics.counts import SeedCounts
from sage_cli.problems.problem import Generator, Problem
from sage_cli.problems.registry import generated
from sage_cli.progress import Progress
from sage_cli.sampling.backends import build_sampler
from sage_cli.sampling.sampler import SampleRequest, SamplerSetup, SamplingParameters
from sage_cli.settings.own_code import names_code
from sage_cli.settings.prompt import PromptSection
from sage_cli.solution_text import CLOSE, is_open
from sage_cli.store.annotations import GradeStore

_Texts = Sequence[tuple[Problem, str]]
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
    judge: Callable[[_Texts], list[Status]]


def text_judge(name: str, benchmark: Benchmark, config: SageConfig) -> TextJudge:
    """Return the judge called `working`, FILE.py:FUNCTION or MODEL@http://HOST:PORT.

    Raises ConfigurationError for another name, and where no rule checks a worked solution.
    """
    if served := _SERVED.fullmatch(name):
        return _served(served["model"], served["server"], config)
    if names_code(name):
        return _function(name, config)
    kind = generated(benchmark.name)
    checks = kind.generator.working_is_right if kind else Generator.working_is_right
    if name == "working" and checks("", "") is not None:
        return TextJudge(
            "the worked solution",
            {"working": kind and kind.generator.name, "version": GRADING_VERSION},
            lambda texts: ["right" if checks(p.question, text) else "wrong" for p, text in texts],
        )
    raise ConfigurationError(
        f"there is no second judge '{name}' for {benchmark.name}",
        "give a Python function of question, completion and gold, for example `--second-judge "
        "mine.py:judge`, or a served model, for example `--second-judge MODEL@http://HOST:8000`; "
        "`working` is for arithmetic alone",
    )


def _function(name: str, config: SageConfig) -> TextJudge:
    asked = config.grading.model_copy(update={"extract": "text"})
    grader = grader_of(name, None, asked, config.prompt, sees_text=True)

    def judge(texts: _Texts) -> list[Status]:
        pairs = ((json.dumps([problem.question, problem.gold]), text) for problem, text in texts)
        return [grade.status for grade in grader.grade_many(pairs)]

    return TextJudge(label_of(name), grader.identity.mapping(), judge)


def _served(model: str, server: str, config: SageConfig) -> TextJudge:
    served = {"backend": "server", "servers": (server,)}
    named = {"server_model": model, "server_form": "chat"}
    section = config.sampling.model_copy(update=served | named)
    setup = SamplerSetup(model, _GREEDY, section, prompt=PromptSection(system=None))

    def judge(texts: _Texts) -> list[Status]:
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


def text_judges(
    name: str, benchmarks: Sequence[Benchmark], config: SageConfig
) -> list[tuple[Benchmark, TextJudge]]:
    """Return each benchmark with the judge of texts called `name`."""
    return [(benchmark, text_judge(name, benchmark, config)) for benchmark in benchmarks]


def judged_again(
    measured: Measurements,
    samples: Sequence[PolicySamples],
    judges: Sequence[tuple[Benchmark, TextJudge]],
    progress: Progress,
) -> Measurements:
    """Return the measurements that count a sample as correct if its benchmark's judge agrees."""
    return {
        (benchmark.name, by_policy.policy.label): second_measurements(
            by_policy, benchmark, measured, judge, progress
        )
        for (benchmark, judge), by_policy in product(judges, samples)
    }


def second_measurements(
    samples: PolicySamples,
    benchmark: Benchmark,
    measured: Measurements,
    judge: TextJudge,
    progress: Progress,
) -> tuple[SeedCounts, ...]:
    """Return the measurements of a policy that count a sample as correct if both grades do.

    Samples that are correct by the first grade are judged and stored as far as they aren't.
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
        name = f"{label}, correct by {judge.label}"
        by_seed.append(seed_counts(name, benchmark.name, samples.at(first.seed), tally))
    return tuple(by_seed)
