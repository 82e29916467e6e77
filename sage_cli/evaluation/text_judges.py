"""Second grades of right samples, by judges that see question, completion and gold."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sage_cli.config.schema import SageConfig
from sage_cli.errors import ConfigurationError
from sage_cli.evaluation.benchmarks import Benchmark
from sage_cli.evaluation.measure import Measurements
from sage_cli.evaluation.stored import PolicySamples
from sage_cli.grading.grades import GRADING_VERSION, Judged, status_of
from sage_cli.grading.workers import WorkerPool, WorkerProcess
from sage_cli.metrics import Counts
from sage_cli.metrics.counts import SampleGrades
from sage_cli.problems.problem import Problem
from sage_cli.problems.registry import generated
from sage_cli.progress import Progress
from sage_cli.reports.provenance import SeedCounts
from sage_cli.sampling.sampler import (
    SampleRequest,
    SamplerSetup,
    SamplingParameters,
    build_sampler,
)
from sage_cli.settings.own_code import OwnFunction, names_code
from sage_cli.settings.sections.model import PromptSection
from sage_cli.store.annotations import GradeStore

Texts = Sequence[tuple[Problem, str]]
"""Completions with their problems."""
WORKING = "working"
_SERVED = re.compile(r"(?P<model>.+)@(?P<server>https?://.+)")
_QUESTION = (
    "A problem, its answer and a solution follow. Is each step of the solution right, and does the "
    "solution lead to that answer? Reply with one word at the end, right or wrong.\n\n"
    "Problem:\n{question}\n\nAnswer: {gold}\n\nSolution:\n{completion}"
)
_WORD = re.compile(r"\b(?:right|wrong)\b")
_GREEDY = SamplingParameters(temperature=0, top_p=1, top_k=0, min_p=0, max_tokens=4096, stop=None)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TextJudge:
    """A judge of whole texts; `identity` is all that decides its grades, and their key."""

    label: str
    identity: Mapping[str, Any]
    judge: Callable[[Texts], Sequence[Judged]]


def text_judge(name: str, benchmark: Benchmark, config: SageConfig) -> TextJudge:
    """Return the judge called `working`, FILE.py:FUNCTION or MODEL@http://HOST:PORT.

    Raises ConfigurationError for another name, and for problems without a checkable working.
    """
    if served := _SERVED.fullmatch(name):
        return _served(served["model"], served["server"], config)
    if names_code(name):
        return _function(OwnFunction.parse(name), config)
    kind = generated(benchmark.name)
    if name != WORKING:
        problem = f"no judge of texts is called '{name}'"
    elif kind is None or not kind.generator.checks_working():
        problem = f"no rule checks the working of {benchmark.name}"
    else:
        checks = kind.generator.working_is_right
        identity = {"working": kind.generator.name, "version": GRADING_VERSION}
        return TextJudge(
            "a right working",
            identity,
            lambda texts: [
                "right" if checks(problem.question, text) else "wrong" for problem, text in texts
            ],
        )
    raise ConfigurationError(
        problem,
        "name a function of question, completion and gold, as --grade mine.py:judge, or a server's "
        "model, as --grade MODEL@http://HOST:8000; `--grade working` is for arithmetic",
    )


def _function(function: OwnFunction, config: SageConfig) -> TextJudge:
    function.require()
    grading = config.grading
    start = partial(WorkerProcess, grading.memory_mb, str(function), "strict", "text")
    pool = WorkerPool(grading.workers, start)

    def judge(texts: Texts) -> Sequence[Judged]:
        tasks = [
            {"gold": json.dumps([problem.question, problem.gold]), "answer": text}
            | {"tolerance": None, "timeout_s": grading.timeout_s}
            for problem, text in texts
        ]
        judged = pool.run(tasks, grading.timeout_s + 1)
        if pool.failure is not None:
            log.warning("%s fails, and such texts count as errors: %s", function, pool.failure)
        return judged

    limits = {"timeout_s": grading.timeout_s, "memory_mb": grading.memory_mb}
    return TextJudge(function.label, {"function": function.identity, **limits}, judge)


def _served(model: str, server: str, config: SageConfig) -> TextJudge:
    served = {"backend": "server", "servers": (server,), "data_parallel": 1}
    named = {"server_model": model, "server_form": "chat"}
    section = config.sampling.model_copy(update=served | named)
    setup = SamplerSetup(model, _GREEDY, section, prompt=PromptSection(system=None))

    def judge(texts: Texts) -> Sequence[Judged]:
        requests = []
        for number, (problem, text) in enumerate(texts):
            about = {"question": problem.question, "gold": problem.gold, "completion": text}
            name = f"{problem.id}/{number}"  # a refusal names it
            requests.append(SampleRequest(name, _QUESTION.format(**about), (0,)))
        with build_sampler(setup) as sampler:
            replies = {reply.problem_id: reply.text for reply in sampler.sample(requests)}
        words = (_WORD.findall(replies[request.problem_id].lower()) for request in requests)
        return [said[-1] if said else "unparseable" for said in words]

    return TextJudge(model, {"server_model": model, "asked": _QUESTION}, judge)


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
        place = {id_: number for number, id_ in enumerate(first.counts.problem_ids)}
        assert first.counts.grades is not None
        right_PN = first.counts.grades.right_PN
        n = right_PN.shape[1]
        with progress.doing(f"{judge.label} judges {label} on {benchmark.name}"):
            for rows in store.missing(problems, n):
                right = [row for row in rows if right_PN[place[row.problem_id], row.index]]
                texts = [(problems[row.problem_id], row.text) for row in right]
                judged = map(status_of, judge.judge(texts) if texts else ())
                store.add([(row, status, None) for row, status in zip(right, judged, strict=True)])
                store.flush()
        tally = store.tally(list(place), n)
        both_PN = right_PN & tally.right_PN
        grades = SampleGrades((first.seed,), both_PN)
        counts = Counts(tuple(place), first.counts.n_P, both_PN.sum(axis=1), grades)
        by_seed.append(
            replace(
                first,
                policy=f"{label}, right by {judge.label}",
                counts=counts,
                statuses=tally.statuses,
                truncated=tally.truncated,
                right_truncated=tally.right_truncated,
            )
        )
    return tuple(by_seed)
