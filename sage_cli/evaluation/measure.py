"""Sample what is missing, grade what is there: a policy and a benchmark become counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice

import numpy as np

from sage_cli.config.schema import SageConfig
from sage_cli.evaluation.benchmarks import grader_for
from sage_cli.evaluation.measurement import Measured
from sage_cli.grading import Grade, Grader
from sage_cli.metrics import Counts
from sage_cli.policies.compatibility import refuse_other_template
from sage_cli.policies.policy import Policy
from sage_cli.problems.problem import Problem
from sage_cli.problems.template import PromptTemplate
from sage_cli.progress import Progress
from sage_cli.sampling.build import build_sampler
from sage_cli.sampling.fill import fill
from sage_cli.sampling.sampler import SamplerSetup, SamplingParameters
from sage_cli.store.completion import Completion
from sage_cli.store.samples import SampleIdentity, SampleSet

GRADED_AT_ONCE = 2048


def measure(
    policy: Policy,
    config: SageConfig,
    benchmark: str,
    problems: Sequence[Problem],
    seed: int,
    progress: Progress,
) -> Measured:
    """Fill the sample set of (policy, template, sampling, seed), then grade and count it.

    `problems` are the benchmark's. Completions are graded while others are drawn; what was stored
    before isn't drawn again.
    """
    template = PromptTemplate.from_section(config.prompt, policy.tokenizer())
    allowed = config.evaluation.allow_template_mismatch
    refuse_other_template(policy, template, allowed=allowed, use="this evaluation")
    samples, parameters = sample_set(policy, config, template, seed)
    golds = {problem.id: problem.gold for problem in problems}
    with grader_for(config, benchmark) as grader:
        _draw(policy, config, parameters, samples, problems, template, grader, progress)
        stored = samples.completions(golds.keys(), config.evaluation.samples)
        rights, statuses, truncated = _count(stored, golds, grader)
    counts = Counts(
        tuple(golds),
        np.full(len(golds), config.evaluation.samples),
        np.array([rights[problem_id] for problem_id in golds]),
    )
    return Measured(
        policy.label, benchmark, seed, counts, statuses, truncated, samples.identity.key
    )


def sample_set(
    policy: Policy, config: SageConfig, template: PromptTemplate, seed: int
) -> tuple[SampleSet, SamplingParameters]:
    """Where a policy's completions under `sampling` and an evaluation seed are, drawn or not."""
    parameters = SamplingParameters.from_section(config.sampling, stop=template.stop)
    identity = SampleIdentity(
        policy.fingerprint, template.hash, asdict(parameters) | {"seed": seed}
    )
    return SampleSet(config.run.root, identity), parameters


def _draw(
    policy: Policy,
    config: SageConfig,
    parameters: SamplingParameters,
    samples: SampleSet,
    problems: Sequence[Problem],
    template: PromptTemplate,
    grader: Grader,
    progress: Progress,
) -> None:
    """Draw what the set lacks; the model is loaded only when something is lacking."""
    n = config.evaluation.samples
    inventory = samples.inventory()
    missing = sum(len(inventory.missing(problem.id, n)) for problem in problems)
    if not missing:
        return
    setup = SamplerSetup(
        policy.path, parameters, config.sampling, dtype=config.model.dtype, **policy.loading
    )
    golds = {problem.id: problem.gold for problem in problems}
    prompts = {problem.id: template.render(problem.question) for problem in problems}
    total = n * len(problems)
    progress.begin(f"sample {policy.label}", total, "samples", total - missing)
    grading: list[Future[list[Grade]]] = []
    with ThreadPoolExecutor(1) as beside, build_sampler(setup) as sampler:

        def drawn(rows: list[Completion]) -> None:
            progress.advance(len(rows))
            pairs = [(golds[row.problem_id], row.text) for row in rows]
            while grading and grading[0].done():
                grading.pop(0).result()  # an error in the thread is ours
            grading.append(beside.submit(grader.grade_many, pairs))

        fill(samples, prompts, n, sampler, drawn)
    for graded in grading:
        graded.result()
    progress.end()


def _count(
    stored: Iterator[Completion], golds: Mapping[str, str], grader: Grader
) -> tuple[Counter[str], Counter[str], int]:
    """Right answers per problem, verdicts by status, completions cut off; streamed in chunks."""
    rights: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    truncated = 0
    while rows := list(islice(stored, GRADED_AT_ONCE)):
        grades = grader.grade_many([(golds[row.problem_id], row.text) for row in rows])
        for row, grade in zip(rows, grades, strict=True):
            rights[row.problem_id] += grade.status == "right"
            statuses[grade.status] += 1
            truncated += row.finish_reason == "length"
    return rights, statuses, truncated
